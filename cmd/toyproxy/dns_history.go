package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/cluster/watch"
	"github.com/toyproxy/toyproxy/dns"
)

const dnsHistoryLong = `Prints what events changed in the cluster's zone, the oldest first: when, which
object, and the records that came (+) and went (-). A cluster DNS server of this node
keeps the history; an event without effect on the zone is not in it.`

// historyFlags are what one dns history asks.
type historyFlags struct {
	nf    nodeFlags
	watch bool
	tail  int
	out   outputFlag
}

func dnsHistoryCommand() *cobra.Command {
	var f historyFlags
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Print what events changed in the cluster's zone",
		Long:  dnsHistoryLong,
		Example: `  toyproxy dns history
  toyproxy dns history -w
  toyproxy dns history --tail 1 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.nf.registerScope(cmd)
	f.out.register(cmd, "json")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "go on and print changes as they happen")
	cmd.Flags().IntVar(&f.tail, "tail", -1, "only the last so many (-1: all)")
	return cmd
}

func (f *historyFlags) run(cmd *cobra.Command) error {
	file := filepath.Join(f.nf.scope().stateDir, dns.HistoryFile)
	entries, err := readDNSHistory(file)
	if errors.Is(err, fs.ErrNotExist) && !f.watch {
		return errors.New("no cluster DNS server has served this node: examples/dns.yaml runs one as a Pod")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	shown := entries
	if f.tail >= 0 && len(shown) > f.tail {
		shown = shown[len(shown)-f.tail:]
	}
	if err := f.print(cmd.OutOrStdout(), shown); err != nil || !f.watch {
		return err
	}
	return f.follow(cmd, file, entries)
}

// follow prints entries as they come.
func (f *historyFlags) follow(cmd *cobra.Command, file string, seen []dns.Entry) error {
	wake := make(chan struct{}, 1)
	ctx := cmd.Context()
	go watch.Watch(ctx, watch.Config{Paths: []string{file}, Flat: true, Wake: func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}})
	for {
		entries, err := readDNSHistory(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := f.print(cmd.OutOrStdout(), unseen(entries, seen)); err != nil {
			return err
		}
		seen = entries
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-time.After(lookAgain):
		}
	}
}

// unseen are the entries behind those seen before. The file is written anew when it
// is cut to its bound, so they are known by their times, which never go back; of
// several of one time the first have been seen.
func unseen(entries, seen []dns.Entry) []dns.Entry {
	if len(seen) == 0 {
		return entries
	}
	last := seen[len(seen)-1].Time
	same := 0
	for _, e := range seen {
		if e.Time.Equal(last) {
			same++
		}
	}
	for i, e := range entries {
		if e.Time.After(last) {
			return entries[i:]
		}
		if e.Time.Equal(last) {
			if same--; same < 0 {
				return entries[i:]
			}
		}
	}
	return nil
}

func (f *historyFlags) print(w io.Writer, entries []dns.Entry) error {
	for _, e := range entries {
		if f.out.isJSON() {
			line, err := json.Marshal(e)
			if err != nil {
				return fmt.Errorf("history of cluster DNS: %w", err)
			}
			if _, err := fmt.Fprintf(w, "%s\n", line); err != nil {
				return err
			}
			continue
		}
		if _, err := io.WriteString(w, historyText(e)); err != nil {
			return err
		}
	}
	return nil
}

// historyText is an entry as people read it.
func historyText(e dns.Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s %s\n", e.Time.Local().Format("2006-01-02T15:04:05.000Z07:00"), e.Object, e.Event)
	for _, r := range e.Removed {
		fmt.Fprintf(&b, "  - %s\n", r)
	}
	for _, r := range e.Added {
		fmt.Fprintf(&b, "  + %s\n", r)
	}
	return b.String()
}

// readDNSHistory reads a history. A line that is no entry is one that a server died
// over, and is left out.
func readDNSHistory(file string) ([]dns.Entry, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("history of cluster DNS: %w", err)
	}
	defer f.Close()
	var out []dns.Entry
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var e dns.Entry
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			out = append(out, e)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("history of cluster DNS: %w", err)
	}
	return out, nil
}
