package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/toyproxy/toyproxy/top"
)

// What terminals understand, each of them that is of use today.
const (
	otherScreen, ownScreen = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
	toTop, clearRest       = "\x1b[H", "\x1b[J"
	clearLine              = "\x1b[K"
	bold, faint, plain     = "\x1b[1m", "\x1b[2m", "\x1b[0m"
)

// screen is the terminal while top has it.
type screen struct {
	tty    *os.File
	before *term.State
}

// openScreen takes the terminal: keys come one by one, and what was there before is
// there again after close.
func openScreen() (*screen, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	before, err := term.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("terminal: %w", err), tty.Close())
	}
	s := &screen{tty, before}
	_, err = tty.WriteString(otherScreen)
	return s, err
}

func (s *screen) close() error {
	_, err := s.tty.WriteString(ownScreen)
	return errors.Join(err, term.Restore(int(os.Stdin.Fd()), s.before), s.tty.Close())
}

// draw shows what the model shows.
func (s *screen) draw(m top.Model) error {
	if width, height, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		m = m.Resize(width, height)
	}
	styles := map[top.Emphasis]string{top.Bold: bold, top.Faint: faint}
	var b strings.Builder
	b.WriteString(toTop)
	for i, l := range m.View() {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(styles[l.Emphasis] + l.Text + plain + clearLine)
	}
	_, err := s.tty.WriteString(b.String() + clearRest)
	return err
}

// keys sends what is pressed until stop.
func (s *screen) keys(out chan<- string, stop <-chan struct{}) {
	b := make([]byte, 256)
	for {
		n, err := s.tty.Read(b)
		if err != nil {
			return
		}
		for _, k := range top.Keys(b[:n]) {
			select {
			case out <- k:
			case <-stop:
				return
			}
		}
	}
}

// showTop shows samples on the terminal until the reader or the context ends it.
func showTop(ctx context.Context, m top.Model, s *sampler) (failed error) {
	scr, err := openScreen()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	s.ctx = ctx
	var running sync.WaitGroup
	defer func() {
		cancel()
		_ = scr.tty.SetReadDeadline(time.Unix(1, 0))
		running.Wait()
		failed = errors.Join(failed, scr.close())
	}()
	pressed, samples, broken := make(chan string), make(chan top.Sample), make(chan error, 1)
	running.Go(func() { scr.keys(pressed, ctx.Done()) })
	running.Go(func() { s.all(samples, broken) })
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	defer signal.Stop(resized)
	for !m.Over {
		if err := scr.draw(m); err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-broken:
			return err
		case k := <-pressed:
			m = m.Press(k)
		case sample := <-samples:
			m = m.Show(sample)
		case <-resized:
		}
	}
	return nil
}

// all takes one sample after the other, until one fails or the context ends.
func (s *sampler) all(out chan<- top.Sample, broken chan<- error) {
	for {
		sample, err := s.next()
		if err != nil {
			broken <- err
			return
		}
		select {
		case out <- sample:
		case <-s.ctx.Done():
			return
		}
	}
}
