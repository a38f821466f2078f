package top

import (
	"fmt"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
)

// Model is the table in a terminal.
type Model struct {
	// next takes the next sample, and gives it, or the error that it failed with, as a
	// message.
	next func() tea.Msg
	// title says what node it is.
	title string

	sample        Sample
	rows          []Row
	order         Order
	filter        string
	width, height int
	// filtering: keys go to the filter. endpoints: each has a line. frozen: samples are
	// not shown. help: the keys are shown.
	filtering, endpoints, frozen, help bool
	// first is the first line shown.
	first int
	err   error
}

// New returns a table without a sample. Next takes one: it waits for an interval, and
// returns a Sample, or an error.
func New(title string, order Order, next func() (Sample, error)) Model {
	return Model{title: title, order: order, width: 80, height: 24, next: func() tea.Msg {
		s, err := next()
		if err != nil {
			return err
		}
		return s
	}}
}

// Err is the error that the last sample failed with.
func (m Model) Err() error { return m.err }

// Init implements tea.Model: it takes the first sample.
func (m Model) Init() tea.Cmd { return m.next }

// Update implements tea.Model.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case Sample:
		if !m.frozen {
			m.sample, m.rows = msg, Rows(msg)
		}
		return m, m.next
	case error:
		m.err = msg
		return m, tea.Quit
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyMsg:
		if m.filtering {
			return m.typed(msg), nil
		}
		return m.pressed(msg)
	}
	return m, nil
}

// typed takes a key of the filter.
func (m Model) typed(key tea.KeyMsg) Model {
	switch key.Type {
	case tea.KeyEnter:
		m.filtering = false
	case tea.KeyEsc, tea.KeyCtrlC:
		m.filtering, m.filter = false, ""
	case tea.KeyBackspace:
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	case tea.KeyRunes, tea.KeySpace:
		m.filter += printable(string(key.Runes))
	}
	m.first = 0
	return m
}

// orders are the keys that choose one.
func orders() map[string]Order {
	return map[string]Order{"c": ByConnections, "b": ByBytes, "a": ByActive, "n": ByName}
}

// pressed takes a key of the table.
func (m Model) pressed(key tea.KeyMsg) (tea.Model, tea.Cmd) {
	if o, ok := orders()[key.String()]; ok {
		m.order, m.first = o, 0
		return m, nil
	}
	switch key.String() {
	case "q", "ctrl+c":
		return m, tea.Quit
	case "/":
		m.filtering = true
	case "esc":
		m.filter, m.help = "", false
	case "e":
		m.endpoints = !m.endpoints
	case " ", "p":
		m.frozen = !m.frozen
	case "?", "h":
		m.help = !m.help
	default:
		m.first = max(0, m.first+m.scrolled(key.String()))
	}
	return m, nil
}

// scrolled is by how many lines a key scrolls.
func (m Model) scrolled(key string) int {
	switch key {
	case "down", "j":
		return 1
	case "up", "k":
		return -1
	case "pgdown":
		return m.room()
	case "pgup":
		return -m.room()
	case "home", "g":
		return -m.first
	}
	return 0
}

// frame is how many lines are no rows: title, notes or filter, header, keys.
const frame = 4

// room is how many lines of rows there is room for.
func (m Model) room() int { return max(1, m.height-frame) }

// keys tells what can be pressed.
const keys = "q quit · c b a n sort by connections, bytes, active, name · e endpoints · / filter · p freeze · ↑ ↓ scroll · ? help"

const longHelp = `CONN/S     connections given an endpoint, and UDP flows that began, each second
ACTIVE     connections that are open, and UDP flows that are remembered
IN/S       bytes from clients, OUT/S bytes from endpoints, of whole IP packets
ENDPOINTS  how many there are, and their parts of the connections of the interval;
           when there were none, of those that are open

c b a n    sort by connections, bytes, active connections, name
e          a line for each endpoint
/          filter by Service, protocol or Pod; Esc takes the filter away
p, space   freeze, and go on
q          quit`

// View implements tea.Model.
func (m Model) View() string {
	bold, dim := lipgloss.NewStyle().Bold(true), lipgloss.NewStyle().Faint(true)
	if m.help {
		return longHelp + "\n"
	}
	rows := Filter(slices.Clone(m.rows), m.filter)
	Sort(rows, m.order)
	table := m.table(rows)
	first := min(m.first, max(0, len(table)-1-m.room()))
	body := table[1+first : min(len(table), 1+first+m.room())]
	lines := []string{bold.Render(cut(m.summary(rows), m.width)), cut(m.state(), m.width), bold.Render(table[0])}
	lines = append(lines, body...)
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return strings.Join(append(lines, dim.Render(cut(keys, m.width))), "\n")
}

// table lays out header and rows.
func (m Model) table(rows []Row) []string {
	head := header
	for column, o := range map[int]Order{0: ByName, 2: ByConnections, 3: ByActive, 5: ByBytes} {
		if o == m.order {
			head[column] += "▾"
		}
	}
	cells := [][len(header)]string{head}
	for _, r := range rows {
		cells = append(cells, r.cells())
		if m.endpoints {
			for _, s := range r.Endpoints {
				cells = append(cells, s.cells())
			}
		}
	}
	return layout(cells, m.width)
}

// summary adds up what the rows carry.
func (m Model) summary(rows []Row) string {
	var sum Rates
	for _, r := range rows {
		sum.Connections += r.Connections
		sum.Active += r.Active
		sum.BytesIn += r.BytesIn
		sum.BytesOut += r.BytesOut
	}
	return fmt.Sprintf("%s   %d Service ports   %s conn/s   %d active   in %s/s   out %s/s", m.title, len(rows),
		perSecond(sum.Connections), sum.Active, volume(sum.BytesIn), volume(sum.BytesOut))
}

// state is the second line: the filter, whether it stands still, notes.
func (m Model) state() string {
	var parts []string
	if m.sample.Took == 0 {
		parts = append(parts, "looking …")
	}
	if m.filtering {
		parts = append(parts, "filter: "+m.filter+"▏")
	} else if m.filter != "" {
		parts = append(parts, "filter: "+m.filter)
	}
	if m.frozen {
		parts = append(parts, "frozen")
	}
	return strings.Join(append(parts, m.sample.Notes...), "   ")
}
