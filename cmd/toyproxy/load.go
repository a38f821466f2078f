package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/toyproxy/toyproxy/load"
)

func loadCommand() *cobra.Command {
	var o load.Options
	var lasts time.Duration
	var netns string
	var out outputFlag
	cmd := &cobra.Command{
		Use:   "load ADDRESS:PORT",
		Short: "Send connections at a steady rate and count who answers",
		Long: `Begins so many TCP connections a second to a Service's address, asks each for
GET /hostname as stand-ins answer it, and counts the answers by Pod and the failures by their cause.
It ends with status 1 when any failed. Ended by INT or TERM it still tells what it saw.`,
		Example: `  sudo ip netns exec pod-a toyproxy load 10.96.0.10:80 --count 2000
  sudo toyproxy load 10.96.0.10:80 --netns pod-a --rate 2000 --for 10s`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.Target, err = netip.ParseAddrPort(args[0]); err != nil {
				return exit(exitUsage, fmt.Errorf("%w: want an address and a port, such as 10.96.0.10:80", err))
			}
			if o.Rate <= 0 || o.Count < 0 || lasts < 0 {
				return exit(exitUsage, errors.New("--rate has to be at least 1, --count and --for at least 0"))
			}
			if err := enterNamespace(netns); err != nil {
				return err
			}
			return runLoad(cmd, o, lasts, out.isJSON())
		},
	}
	cmd.Flags().IntVar(&o.Rate, "rate", 200, "connections begun a second")
	cmd.Flags().IntVar(&o.Count, "count", 0, "end after that many (default: as --for says)")
	cmd.Flags().DurationVar(&lasts, "for", 0, "end after that time (default 10s, unless --count is given)")
	cmd.Flags().DurationVar(&o.Patience, "patience", 2*time.Second, "how long one connection may take")
	cmd.Flags().StringVar(&netns, "netns", "", "network namespace to send from, a Pod's for example (default: this one)")
	out.register(cmd, "json")
	return cmd
}

func runLoad(cmd *cobra.Command, o load.Options, lasts time.Duration, asJSON bool) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if lasts == 0 && o.Count == 0 {
		lasts = 10 * time.Second
	}
	if lasts > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, lasts)
		defer cancel()
	}
	res := load.Run(ctx, o)
	var err error
	if asJSON {
		err = printJSON(cmd.OutOrStdout(), res)
	} else {
		printLoad(cmd.OutOrStdout(), res)
	}
	if res.Failed > 0 {
		err = errors.Join(err, fmt.Errorf("%s failed", count(res.Failed, "connection")))
	}
	return err
}

// printLoad prints the shares, the largest first, and the failures.
func printLoad(w io.Writer, res load.Result) {
	names := slices.SortedFunc(maps.Keys(res.By), func(a, b string) int {
		return res.By[b] - res.By[a]
	})
	for _, n := range names {
		fmt.Fprintf(w, "%-40s %6d  %5.1f %%\n", printable(n), res.By[n], 100*float64(res.By[n])/float64(res.Answered))
	}
	for _, reason := range slices.Sorted(maps.Keys(res.Errors)) {
		fmt.Fprintf(w, "failed: %-32s %6d\n", printable(reason), res.Errors[reason])
	}
	fmt.Fprintf(w, "%s in %.1fs (%.0f a second): %d answered, %d failed, the slowest in %s\n", count(res.Sent, "connection"),
		res.Took.Seconds(), float64(res.Sent)/max(res.Took.Seconds(), 1e-9), res.Answered, res.Failed, res.Slowest.Round(time.Millisecond))
}
