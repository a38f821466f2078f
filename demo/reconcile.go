package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// playReconcile is rows L4 to L8: a loop that counts, creates and deletes.
func playReconcile(ctx context.Context, s *stage) error {
	return s.play(ctx, iterations, sideBySide, bounded, randomLoss)
}

// want writes Deployment worker with that many replicas.
func (s *stage) want(app string, replicas int) error {
	return s.write(app+".yaml", deployment{name: app, labels: "app: " + app, replicas: replicas}.manifest())
}

// once syncs and returns the Pods of an app before and after.
func (s *stage) once(ctx context.Context, app string) (before, after []pod, err error) {
	if before, err = s.pods(ctx, app); err != nil {
		return nil, nil, err
	}
	if err := s.sync(ctx); err != nil {
		return nil, nil, err
	}
	out, err := s.run(ctx, podsOf+app)
	return before, parsePods(out), err
}

// iteration is one sync: so many Pods are wanted and have been lost, so many are
// made and ended.
type iteration struct {
	tell           string
	replicas, lose int
	made, end      int
}

// iterations are the seven of the lesson (L4, L5).
func iterations(ctx context.Context, s *stage) error {
	born := map[string]int{} // the iteration in which each Pod was made
	for i, step := range []iteration{
		{"Three are wanted and there are none.", 3, 0, 3, 0},
		{"There are as many as wanted: nothing is done.", 3, 0, 0, 0},
		{"Five are wanted.", 5, 0, 2, 0},
		{"Two are lost. The loop does not ask why; it counts.", 5, 2, 2, 0},
		{"Five again: nothing is done.", 5, 0, 0, 0},
		{"Two are wanted: the newest go first.", 2, 0, 0, 3},
		{"Two: nothing is done.", 2, 0, 0, 0},
	} {
		s.say("Iteration %d. %s", i+1, step.tell)
		if err := s.iterate(ctx, i, step, born); err != nil {
			return err
		}
		// Pods are as old as the second in which they were made.
		if _, err := s.quiet(ctx, "sleep 1.1"); err != nil {
			return err
		}
	}
	return nil
}

// iterate plays one iteration and notes which Pods it has made.
func (s *stage) iterate(ctx context.Context, number int, step iteration, born map[string]int) error {
	if err := s.want("worker", step.replicas); err != nil {
		return err
	}
	if err := s.lose(ctx, "worker", step.lose); err != nil {
		return err
	}
	before, after, err := s.once(ctx, "worker")
	if err != nil {
		return err
	}
	alive := slices.DeleteFunc(slices.Clone(before), func(p pod) bool { return !p.up() })
	if err := s.expect(allUp(after, step.replicas), "%d Pods live", step.replicas); err != nil {
		return err
	}
	made, ended := fresh(before, after), fresh(after, alive)
	if err := s.expect(len(made) == step.made && len(ended) == step.end, "%d made, under new names, and %d ended", step.made, step.end); err != nil {
		return err
	}
	for _, name := range made {
		born[name] = number
	}
	if step.end == 0 {
		return nil
	}
	return s.expectOldest(born, ended, after)
}

// expectOldest: nobody who has gone is of an earlier iteration than one who has
// stayed. Pods of one iteration are as old as each other.
func (s *stage) expectOldest(born map[string]int, gone []string, after []pod) error {
	right := true
	for stayed := range names(after) {
		for _, name := range gone {
			right = right && born[name] >= born[stayed]
		}
	}
	return s.expect(right, "the oldest have stayed")
}

// lose kills the pause processes of the first so many Pods, and waits until those
// are seen to be dead: a signal is sent before it is obeyed.
func (s *stage) lose(ctx context.Context, app string, n int) error {
	if n == 0 {
		return nil
	}
	pods, err := s.pods(ctx, app)
	if err != nil {
		return err
	}
	lost := names(pods[:n])
	for _, p := range pods[:n] {
		if _, err := s.run(ctx, killPause(p.name)); err != nil {
			return err
		}
	}
	_, err = s.silently(ctx, podsOf+app, func(answer string) bool {
		return !slices.ContainsFunc(parsePods(answer), func(p pod) bool { return lost[p.name] && p.up() })
	})
	return err
}

// sideBySide is L6: two controllers, and neither touches the other's Pods.
func sideBySide(ctx context.Context, s *stage) error {
	s.say("A second Deployment. Whatever becomes of the first, its Pods are nobody else's business.")
	if err := s.want("other", 2); err != nil {
		return err
	}
	_, others, err := s.once(ctx, "other")
	if err != nil {
		return err
	}
	for _, n := range []int{4, 1, 3, 2} {
		if err := errors.Join(s.want("worker", n), s.lose(ctx, "worker", 1), s.sync(ctx)); err != nil {
			return err
		}
	}
	after, err := s.pods(ctx, "other")
	if err != nil {
		return err
	}
	return s.expect(len(fresh(others, after)) == 0 && allUp(after, 2), "the Pods of the other are the same as before, by name")
}

var madeInPass = regexp.MustCompile(`made=(\d+)`)

// bounded is L7: how much one pass may do.
func bounded(ctx context.Context, s *stage) (err error) {
	s.say("A bound: with --max-actions-per-pass 2 a gap of five is closed in three passes.")
	if err := s.want("worker", 7); err != nil {
		return err
	}
	stop, err := s.follow(ctx, "--max-actions-per-pass 2 --min-sync-period 100ms")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if _, err := s.untilPods(ctx, "worker", 7); err != nil {
		return err
	}
	// The last pass writes its line after the Pods are there.
	if err := s.untilMade(ctx, "", 5); err != nil {
		return err
	}
	out, err := s.run(ctx, `grep -o 'made=[1-9]' run.log`)
	if err != nil {
		return err
	}
	return s.expect(strings.Join(strings.Fields(out), " ") == "made=2 made=2 made=1", "three passes made 2, 2 and 1")
}

// lossRounds is how often a Pod is lost.
const lossRounds = 100

// randomLoss is L8: never fewer than wanted for more than one pass.
func randomLoss(ctx context.Context, s *stage) (err error) {
	s.say("%d times a Pod chosen at random is lost. How many passes in a row find fewer than wanted?", lossRounds)
	stop, err := s.follow(ctx, "--min-sync-period 20ms")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	dice := rand.New(rand.NewPCG(8, 8))
	worst := 0
	for range lossRounds {
		passes, err := s.loseOne(ctx, dice)
		if err != nil {
			return err
		}
		worst = max(worst, passes)
	}
	log, err := s.log()
	if err != nil {
		return err
	}
	_, made := madeBy(log)
	if err := s.expect(made == lossRounds, "%d Pods were made for %d that were lost", made, lossRounds); err != nil {
		return err
	}
	return s.expect(worst == 1, "the worst number of passes that found fewer than wanted is %d", worst)
}

// loseOne kills a Pod, waits for the one that takes its place, and returns how
// many passes had to make Pods for that.
func (s *stage) loseOne(ctx context.Context, dice *rand.Rand) (passes int, err error) {
	pods, err := s.pods(ctx, "worker")
	if err != nil {
		return 0, err
	}
	before, err := s.log()
	if err != nil {
		return 0, err
	}
	victim := pods[dice.IntN(len(pods))]
	if _, err := s.quiet(ctx, killPause(victim.name)); err != nil {
		return 0, err
	}
	if _, err := s.silently(ctx, podsOf+"worker", func(answer string) bool {
		now := parsePods(answer)
		return allUp(now, len(pods)) && !names(now)[victim.name]
	}); err != nil {
		log, _ := s.log()
		return 0, fmt.Errorf("%d Pods without %s: %w\nthe end of run.log:\n%s", len(pods), victim.name, err, log[max(0, len(log)-3000):])
	}
	// The pass writes its line after the Pod is there. Without it, it would count for
	// the next loss.
	if err := s.untilMade(ctx, before, 1); err != nil {
		return 0, err
	}
	after, err := s.log()
	if err != nil {
		return 0, err
	}
	passes, _ = madeBy(after[len(before):])
	return passes, nil
}

// untilMade waits until the log tells, behind what it has told before, of so many
// Pods that were made.
func (s *stage) untilMade(ctx context.Context, before string, n int) error {
	_, err := s.silently(ctx, "cat run.log", func(log string) bool {
		_, made := madeBy(log[min(len(before), len(log)):])
		return made >= n
	})
	return err
}

// log is what toyproxy run has written so far.
func (s *stage) log() (string, error) {
	data, err := os.ReadFile(filepath.Join(s.Dir, "run.log"))
	if err != nil {
		return "", fmt.Errorf("log of toyproxy run: %w", err)
	}
	return string(data), nil
}

// madeBy counts the passes of a log that made Pods, and the Pods.
func madeBy(log string) (passes, made int) {
	for _, m := range madeInPass.FindAllStringSubmatch(log, -1) {
		n := 0
		_, _ = fmt.Sscan(m[1], &n)
		if made += n; n > 0 {
			passes++
		}
	}
	return passes, made
}
