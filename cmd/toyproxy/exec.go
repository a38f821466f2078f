package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/types"

	"github.com/toyproxy/toyproxy/pods"
)

const execLong = `Run a command inside a container of a Pod.

It joins all namespaces of the container and sees its files; it has the container's
environment, user and directory. Its exit status is that of this command.`

func execCommand() *cobra.Command {
	var place placeFlags
	var container string
	var stdin, tty, quiet bool
	cmd := &cobra.Command{
		Use: "exec (POD | KIND/NAME) [-c CONTAINER] [-it] -- COMMAND [ARGS...]", Short: "Run a command inside a container", Long: execLong,
		Example: "  sudo toyproxy exec web-1 -- cat /etc/resolv.conf\n  sudo toyproxy exec -it web-1 -c sidecar -- sh",
		RunE: func(cmd *cobra.Command, args []string) error {
			pod, command, err := execArgs(cmd, args)
			if err != nil {
				return exit(exitUsage, err)
			}
			if err := needRoot("exec"); err != nil {
				return err
			}
			p, err := place.onePod(quietly(cmd, quiet), pod)
			if err != nil {
				return err
			}
			spec, err := chooseContainer(quietly(cmd, quiet), p, container)
			if err != nil {
				return err
			}
			c, err := pods.Find(place.stateDir(), types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, spec.Name)
			if err != nil {
				return err
			}
			return runExec(cmd, c, command, stdin, tty)
		},
	}
	place.register(cmd)
	fl := cmd.Flags()
	fl.StringVarP(&container, "container", "c", "", "the container (default: annotation kubectl.kubernetes.io/default-container, else the first)")
	fl.BoolVarP(&stdin, "stdin", "i", false, "pass standard input on")
	fl.BoolVarP(&tty, "tty", "t", false, "standard input is a terminal")
	fl.BoolVarP(&quiet, "quiet", "q", false, "print only what the command prints")
	return cmd
}

// quietly is a command that tells nobody, if so asked.
func quietly(cmd *cobra.Command, quiet bool) *cobra.Command {
	if !quiet {
		return cmd
	}
	silent := &cobra.Command{}
	silent.SetErr(io.Discard)
	return silent
}

// execArgs parts the Pod's name from the command, which stands behind --.
func execArgs(cmd *cobra.Command, args []string) (pod string, command []string, err error) {
	at := cmd.ArgsLenAtDash()
	switch {
	case at < 0 && len(args) > 1:
		return "", nil, errors.New("exec POD COMMAND is not supported: use exec POD -- COMMAND")
	case at != 1 && !(at < 0 && len(args) == 1):
		return "", nil, fmt.Errorf("name one Pod: exec POD -- COMMAND\nSee '%s --help'", cmd.CommandPath())
	case len(args) < 2:
		return "", nil, errors.New("you must specify at least one command for the container")
	}
	return args[0], args[1:], nil
}

// runExec runs the command and ends with its status.
func runExec(cmd *cobra.Command, c *pods.Container, command []string, stdin, tty bool) error {
	streams := pods.Streams{Out: os.Stdout, Err: os.Stderr}
	if stdin {
		streams.In = os.Stdin
	}
	if tty && !(stdin && term.IsTerminal(int(os.Stdin.Fd()))) {
		fmt.Fprintln(cmd.ErrOrStderr(), "Unable to use a TTY - input is not a terminal or the right kind of file")
		tty = false
	}
	var status int
	var err error
	if tty {
		status, err = runInTerminal(cmd.Context(), c, command)
	} else {
		status, err = c.Run(cmd.Context(), command, streams)
	}
	if err != nil {
		return err
	}
	if status != 0 {
		if !tty {
			fmt.Fprintf(cmd.ErrOrStderr(), "command terminated with exit code %d\n", status)
		}
		return exit(status, nil)
	}
	return nil
}

// linger is how long the last output of a command in a terminal is waited for.
const linger = 500 * time.Millisecond

// runInTerminal runs a command in a terminal of its own, of which ours shows the
// contents: keys go through as they are pressed, and it has our size.
func runInTerminal(ctx context.Context, c *pods.Container, command []string) (int, error) {
	master, slave, err := pty.Open()
	if err != nil {
		return 0, fmt.Errorf("terminal: %w", err)
	}
	defer master.Close()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer close(resized)
	defer signal.Stop(resized)
	_ = pty.InheritSize(os.Stdin, master) // before the command looks
	go func() {
		for range resized {
			_ = pty.InheritSize(os.Stdin, master)
		}
	}()
	before, err := term.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		return 0, fmt.Errorf("terminal: %w", err)
	}
	defer func() { _ = term.Restore(int(os.Stdin.Fd()), before) }()
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		_, _ = io.Copy(os.Stdout, master) // ends with EIO when the last user of the terminal has gone
	}()
	go func() { _, _ = io.Copy(master, os.Stdin) }() // ends with the process
	status, err := c.Run(ctx, command, pods.Streams{In: slave, Out: slave, Err: slave, Terminal: true})
	_ = slave.Close()
	select {
	case <-shown:
	case <-time.After(linger): // something in the background keeps the terminal open
	}
	return status, err
}
