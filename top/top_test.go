package top

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toyproxy/toyproxy/dataplane"
	"github.com/toyproxy/toyproxy/dataplane/conntrack"
	"github.com/toyproxy/toyproxy/dataplane/meter"
)

// sample is two seconds of three Services.
func sample() Sample {
	count := func(connections uint64, active int, bytes uint64) meter.Count {
		return meter.Count{Connections: connections, Active: active, In: conntrack.Volume{Packets: bytes / 100, Bytes: bytes}, Out: conntrack.Volume{Packets: bytes / 10, Bytes: 10 * bytes}}
	}
	endpoint := func(addr, pod string, c meter.Count) meter.Endpoint {
		return meter.Endpoint{Addr: netip.MustParseAddrPort(addr), Name: pod, Count: c}
	}
	return Sample{Took: 2 * time.Second, Lines: []meter.Line{
		{Service: "default/api", Protocol: dataplane.TCP, Count: count(0, 4, 200_000), Endpoints: []meter.Endpoint{
			endpoint("10.244.0.4:80", "default/api-1", count(0, 3, 200_000)), endpoint("[fd00:10:244::4]:80", "other/far", count(0, 1, 0))}},
		{Service: "default/web:http", Protocol: dataplane.TCP, Count: count(30, 2, 4000), Endpoints: []meter.Endpoint{
			endpoint("10.244.0.5:8080", "default/web-1", count(10, 2, 1000)), endpoint("10.244.0.6:8080", "", count(20, 0, 3000))}},
		{Service: "kube-system/dns:dns", Protocol: dataplane.UDP, Endpoints: []meter.Endpoint{endpoint("10.244.0.7:53", "kube-system/dns-1", meter.Count{})}},
	}}
}

const byConnections = `SERVICE               PROTO   CONN/S   ACTIVE     IN/S    OUT/S   ENDPOINTS
default/web:http      tcp         15        2   2.0KiB    20KiB   2: 10.244.0.6:8080 67% web-1 33%
default/api           tcp          0        4    98KiB   977KiB   2: api-1 75% other/far 25%
kube-system/dns:dns   udp          0        0       0B       0B   1
`

func TestText(t *testing.T) {
	rows := Rows(sample())
	Sort(rows, ByConnections)
	if diff := cmp.Diff(byConnections, Text(rows, false)); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	want := `SERVICE                           PROTO   CONN/S   ACTIVE     IN/S    OUT/S   ENDPOINTS
default/web:http                  tcp         15        2   2.0KiB    20KiB   2: 10.244.0.6:8080 67% web-1 33%
  10.244.0.5:8080 default/web-1              5.0        2     500B   4.9KiB   ███████ 33%
  10.244.0.6:8080                             10        0   1.5KiB    15KiB   █████████████ 67%
`
	if diff := cmp.Diff(want, Text(rows[:1], true)); diff != "" {
		t.Errorf("table with endpoints (-want +got):\n%s", diff)
	}
}

func TestOrderAndFilter(t *testing.T) {
	for _, tc := range []struct {
		order  Order
		filter string
		want   string
	}{
		{ByName, "", "default/api default/web:http kube-system/dns:dns"},
		{ByBytes, "", "default/api default/web:http kube-system/dns:dns"},
		{ByActive, "", "default/api default/web:http kube-system/dns:dns"},
		{ByConnections, "", "default/web:http default/api kube-system/dns:dns"},
		{ByName, "DEFAULT/", "default/api default/web:http"},
		{ByName, "udp", "kube-system/dns:dns"},
		{ByName, "web-1", "default/web:http"},
		{ByName, "nobody", ""},
	} {
		rows := Filter(Rows(sample()), tc.filter)
		Sort(rows, tc.order)
		var names []string
		for _, r := range rows {
			names = append(names, r.Name())
		}
		if got := strings.Join(names, " "); got != tc.want {
			t.Errorf("by %s, filter %q: %s, want %s", tc.order, tc.filter, got, tc.want)
		}
	}
}

func TestVolume(t *testing.T) {
	for f, want := range map[float64]string{0: "0B", 999: "999B", 1000: "1.0KiB", 10240: "10KiB", 1 << 20: "1.0MiB", 5e12: "4.5TiB"} {
		if got := Volume(f); got != want {
			t.Errorf("%v bytes: %s, want %s", f, got, want)
		}
	}
}

// screen is a model of a size with a sample after keys, as a reader sees it.
func screen(width, height int, sent string) (Model, string) {
	m := New("toyproxy top n1", ByConnections, "").Resize(width, height).Show(sample())
	for _, key := range Keys([]byte(sent)) {
		m = m.Press(key)
	}
	return m, viewed(m)
}

func viewed(m Model) string {
	var lines []string
	for _, l := range m.View() {
		lines = append(lines, l.Text)
	}
	return strings.Join(lines, "\n")
}

// What terminals send.
const (
	up, down, pageDown, home, escape = "\x1b[A", "\x1b[B", "\x1b[6~", "\x1b[H", "\x1b"
	enter, backspace, end, control   = "\r", "\x7f", "\x1b[4~", "\x03"
)

func TestModel(t *testing.T) {
	for _, tc := range []struct {
		name, keys string
		has, not   []string
	}{
		{"as it comes", "", []string{"toyproxy top n1   3 Service ports   15 conn/s   6 active   in 100KiB/s   out 996KiB/s", "CONN/S▾", "web-1 33%", "q quit"}, []string{"frozen", "looking"}},
		{"sorted by name", "n", []string{"SERVICE▾"}, []string{"CONN/S▾"}},
		{"sorted by bytes", "b", []string{"OUT/S▾"}, nil},
		{"endpoints", "e", []string{"10.244.0.5:8080 default/web-1", "███████ 33%"}, nil},
		{"endpoints and back", "ee", nil, []string{"10.244.0.5:8080 default/web-1"}},
		{"filter being typed", "/web", []string{"filter: web▏", "1 Service ports", "default/web:http"}, []string{"default/api"}},
		{"filter in force", "/apx" + backspace + "i" + enter, []string{"filter: api", "default/api"}, []string{"▏", "default/web"}},
		{"q in a filter is a letter", "/q", []string{"filter: q▏"}, []string{"default/"}},
		{"filter taken away", "/web" + enter + escape, []string{"default/api", "default/web"}, []string{"filter:"}},
		{"frozen", "p", []string{"frozen"}, nil},
		{"help", "?", []string{"bytes from clients"}, []string{"default/web"}},
		{"help and back", "??", []string{"default/web"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, got := screen(140, 24, tc.keys)
			for _, text := range tc.has {
				if !strings.Contains(got, text) {
					t.Errorf("no %q in\n%s", text, got)
				}
			}
			for _, text := range tc.not {
				if strings.Contains(got, text) {
					t.Errorf("%q in\n%s", text, got)
				}
			}
		})
	}
}

// TestScreenFits: whatever its size, no line is longer and there are not more lines
// than the screen has; scrolling ends at both ends.
func TestScreenFits(t *testing.T) {
	for _, size := range [][2]int{{20, 6}, {1, 1}, {60, 5}, {200, 50}} {
		for _, keys := range []string{"", "e", "e" + down + down, "e" + pageDown + pageDown + pageDown + up, up + home, "?"} {
			_, got := screen(size[0], size[1], keys)
			lines := strings.Split(got, "\n")
			if len(lines) > max(size[1], frame+1) {
				t.Errorf("%v, %q: %d lines", size, keys, len(lines))
			}
			for _, l := range lines {
				if n := len([]rune(l)); n > size[0] {
					t.Errorf("%v, %q: %d letters in %q", size, keys, n, l)
				}
			}
		}
	}
}

func TestScroll(t *testing.T) {
	_, top := screen(100, 6, "en")
	_, bottom := screen(100, 6, "en"+pageDown+pageDown+pageDown)
	_, back := screen(100, 6, "en"+pageDown+pageDown+home)
	if !strings.Contains(top, "default/api ") || strings.Contains(top, "dns-1") || !strings.Contains(bottom, "dns-1") || back != top {
		t.Errorf("top:\n%s\nbottom:\n%s\nback:\n%s", top, bottom, back)
	}
}

func TestLife(t *testing.T) {
	if got := viewed(New("n1", ByName, "")); !strings.Contains(got, "looking") {
		t.Errorf("before the first sample:\n%s", got)
	}
	if m := New("n1", ByName, "").Press("p").Show(sample()); len(m.rows) != 0 {
		t.Error("a frozen table shows a sample")
	}
	for keys, over := range map[string]bool{"q": true, control: true, "/q": false, "/" + control: false, "x": false} {
		if m, _ := screen(80, 24, keys); m.Over != over {
			t.Errorf("%q: over %v", keys, m.Over)
		}
	}
}

func TestKeys(t *testing.T) {
	for sent, want := range map[string]string{
		"aé" + up + "\x1bOB" + pageDown: "a é up down pgdown", escape: "esc", end + "z": "z", enter + backspace + control: "enter backspace ctrl+c",
		"\x1b[12;5R": "", "\x00\xff": "", "\x1b[": "",
	} {
		if got := strings.Join(Keys([]byte(sent)), " "); got != want {
			t.Errorf("%q: %q, want %q", sent, got, want)
		}
	}
}

// TestHostileNames: no name moves the cursor.
func TestHostileNames(t *testing.T) {
	s := sample()
	s.Lines[1].Service = "default/we\x1b[2Jb"
	s.Lines[1].Endpoints[0].Name = "default/\x1b]0;x"
	text := viewed(New("n1", ByName, "").Resize(200, 24).Show(s).Press("e"))
	if strings.Contains(text+Text(Rows(s), true), "\x1b") {
		t.Errorf("control characters in %q", text)
	}
}
