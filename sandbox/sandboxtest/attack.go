package sandboxtest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/sandbox"
)

//go:embed attack.py
var attack string

// AttackTimeVar is the environment variable that says how long the attack lasts:
// "60s", say.
const AttackTimeVar = "HAFT_ATTACK_TIME"

// What the attack calls the objects that it tries to leave behind.
const (
	attackName = "haft-case-attack"
	attackKey  = 0x48414655
)

// attackRounds is how often the attacker and the burner take turns, so that other load of
// the machine affects both equally.
const attackRounds = 4

// attackCases run one program that makes all attacks at once.
func attackCases() []Case {
	lasts := attackTime()
	return []Case{{
		Name: "attack_on_the_supervisor_slows_nobody", Group: Tenants, Needs: controls(haft.ControlSeccomp),
		Timed: true, Lasts: lasts,
		Guest: "timers of a nanosecond keep the guest kernel of the attacker busy with itself until its limits end it",
		Story: "A program that attacks its supervisor by limits, signals, priorities, descriptors, memory, inotify, " +
			"terminals, keyrings, " +
			"timers, sockets and filters, all at once, slows a neighbour's calls no more than twice as much as one " +
			"that only computes, " +
			"changes nothing about the engine and leaves nothing.",
		Do: func(ctx context.Context, b *Bench) error { return withstand(ctx, b, lasts) },
	}}
}

// attackTime is 2 s, or what the environment says.
func attackTime() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(AttackTimeVar)); err == nil && d > 0 {
		return d
	}
	return 2 * time.Second
}

// withstand times a neighbour beside the attacker and beside a program of as many
// processes that only compute, in turns. The burner has half the attacker's time.
func withstand(ctx context.Context, b *Bench, lasts time.Duration) error {
	b.Run(ctx, sh("exit 0"), nil) // what a provider allocates once is allocated now
	before, err := supervisorState()
	if err != nil {
		return err
	}
	fds, err := openDescriptors()
	if err != nil {
		return err
	}
	var attacked, burned []time.Duration
	did := map[string]bool{}
	for range attackRounds {
		for _, turn := range []struct {
			burn bool
			last time.Duration
			to   *[]time.Duration
		}{{true, lasts / attackRounds / 2, &burned}, {false, lasts / attackRounds, &attacked}} {
			took, err := beside(ctx, b, turn.burn, turn.last, did)
			if err != nil {
				return err
			}
			*turn.to = append(*turn.to, took...)
		}
	}
	if len(did) < 12 { // the burner is one of them
		return fmt.Errorf("of 11 attacks only these were made: %v", did)
	}
	slow, usual := median(attacked), median(burned)
	fmt.Fprintf(&b.figures, "attack of %v: a neighbour's call takes %.1f ms at the median of %d, beside a burner "+
		"%.1f ms of %d: %.2f times\n",
		lasts, ms(slow), len(attacked), ms(usual), len(burned), float64(slow)/float64(usual))
	if slow > max(2*usual, usual+noise) {
		return fmt.Errorf("a neighbour's call takes %v beside the attacker and %v beside a burner", slow, usual)
	}
	return errors.Join(same(before, fds), prints("fine\n")(b.Run(ctx, py("say('fine')"), nil)))
}

// noise is a difference that a busy machine makes by itself.
const noise = 10 * time.Millisecond

// beside runs the attacker or the burner for a while and returns how long the calls of a
// neighbour take meanwhile. It notes in did which attacks were made.
func beside(ctx context.Context, b *Bench, burn bool, last time.Duration,
	did map[string]bool) ([]time.Duration, error) {
	head := fmt.Sprintf("BURN, NAME, KEY = %s, %q, %d\n", map[bool]string{true: "True", false: "False"}[burn],
		attackName, attackKey)
	live, err := b.Start(ctx, py(head+attack), func(s *sandbox.Spec) {
		s.Limits.Wall, s.Limits.CPU = haft.Millis(last+10*time.Second), haft.Millis(time.Hour)
		s.Limits.Memory = 512 << 20
	})
	if err != nil {
		return nil, err
	}
	if _, err := live.Line(ctx); err != nil {
		return nil, err
	}
	groups, _ := ownGroups(live.token) // if they cannot be listed, their removal is not checked
	var took []time.Duration
	var failed error
	for end := time.Now().Add(last); failed == nil && (time.Now().Before(end) || len(took) < 5); {
		o := b.Run(ctx, sh("echo fine"), nil)
		took = append(took, o.Took)
		if failed = errors.Join(prints("fine\n")(o), stillServes()); failed != nil {
			failed = fmt.Errorf("a neighbour: %w\n\t%v", failed, o)
		}
	}
	said := live.Say("end")
	o := live.Wait()
	if failed = errors.Join(failed, said, exits(0)(o)); failed != nil {
		return nil, fmt.Errorf("%w\n\t%v", failed, o)
	}
	for line := range strings.Lines(o.Stdout) {
		var name string
		var rounds, status int
		if n, _ := fmt.Sscan(line, &name, &rounds, &status); n != 3 || rounds == 0 || status != 0 {
			return nil, fmt.Errorf("an attack made no round, or was ended: %q", o.Stdout)
		}
		did[name] = true
	}
	return took, errors.Join(left(live.token), removed(groups))
}

// same reports what has changed about this process.
func same(before string, fds int) error {
	now, err := supervisorState()
	if err != nil {
		return err
	}
	if now != before {
		return fmt.Errorf("the engine was\n%s\tand is\n%s", indent(before), indent(now))
	}
	// A provider may have one more init ready than before.
	open, err := openDescriptors()
	if err == nil && open > fds+4 {
		err = fmt.Errorf("%d descriptors were open before, %d are after", fds, open)
	}
	return err
}

// median returns the middle one.
func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

// ms returns a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
