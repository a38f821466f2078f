package top

import (
	"fmt"
	"slices"
	"strings"
)

// Model is the table on a screen. It is a value: what happens to it gives another.
type Model struct {
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
	// Over says that the reader wants to leave.
	Over bool
}

// New returns a table without a sample.
func New(title string, order Order, filter string) Model {
	return Model{title: title, order: order, filter: filter, width: 80, height: 24}
}

// Show shows a sample, unless the table is frozen.
func (m Model) Show(s Sample) Model {
	if !m.frozen {
		m.sample, m.rows = s, Rows(s)
	}
	return m
}

// Resize says how large the screen is, in letters and lines.
func (m Model) Resize(width, height int) Model {
	m.width, m.height = max(width, 1), max(height, 1)
	return m
}

// Press takes a key, by its name or letter as Keys has it.
func (m Model) Press(key string) Model {
	if m.filtering {
		return m.typed(key)
	}
	return m.pressed(key)
}

// typed takes a key of the filter.
func (m Model) typed(key string) Model {
	m.first = 0
	switch key {
	case "enter":
		m.filtering = false
	case "esc", "ctrl+c":
		m.filtering, m.filter = false, ""
	case "backspace":
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	default:
		if len([]rune(key)) == 1 {
			m.filter += key
		}
	}
	return m
}

// orders are the keys that choose one.
func orders() map[string]Order {
	return map[string]Order{"c": ByConnections, "b": ByBytes, "a": ByActive, "n": ByName}
}

// pressed takes a key of the table.
func (m Model) pressed(key string) Model {
	if o, ok := orders()[key]; ok {
		m.order, m.first = o, 0
		return m
	}
	switch key {
	case "q", "ctrl+c":
		m.Over = true
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
		m.first = max(0, m.first+m.scrolled(key))
	}
	return m
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

// Emphasis is how a line of the screen is to be shown.
type Emphasis uint8

// The kinds of emphasis.
const (
	Plain Emphasis = iota
	Bold
	Faint
)

// Line is a line of the screen, not longer than it is wide.
type Line struct {
	Text string
	Emphasis
}

// View returns what the screen shows: not more lines than it has, but for one of less
// than five.
func (m Model) View() []Line {
	var lines []Line
	if m.help {
		for l := range strings.SplitSeq(longHelp, "\n") {
			lines = append(lines, Line{cut(l, m.width), Plain})
		}
		return lines[:min(len(lines), m.height)]
	}
	rows := Filter(slices.Clone(m.rows), m.filter)
	Sort(rows, m.order)
	table := m.table(rows)
	first := min(m.first, max(0, len(table)-1-m.room()))
	lines = append(lines, Line{cut(m.summary(rows), m.width), Bold}, Line{cut(m.state(), m.width), Plain}, Line{table[0], Bold})
	for _, l := range table[1+first : min(len(table), 1+first+m.room())] {
		lines = append(lines, Line{l, Plain})
	}
	for len(lines) < m.height-1 {
		lines = append(lines, Line{})
	}
	return append(lines, Line{cut(keys, m.width), Faint})
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
		perSecond(sum.Connections), sum.Active, Volume(sum.BytesIn), Volume(sum.BytesOut))
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
