// Package chat is a conversation with an agent on a terminal, or through a pipe.
//
// A person types a message; [Run] sends it and shows the turn as it goes on: what the model writes, the calls that it
// makes, and the requests for approval, which it asks the person. Without a terminal each line of the input is a
// message, the answers go to the output, and nobody is asked.
//
// Whatever a model, a tool or another person wrote is made harmless before it is shown, and stands behind a gutter or
// in the middle of a line of ours: only a question of this package begins with a question mark at the left edge.
package chat

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"haft"
	"haft/internal/terminal"
)

// Approvals answers requests that wait for a person. [haft.Approver] has both methods.
type Approvals interface {
	Approval(ctx context.Context, p haft.Principal, id haft.ApprovalID) (*haft.Approval, error)
	Decide(ctx context.Context, p haft.Principal, id haft.ApprovalID, a haft.Answer) (*haft.Approval, error)
}

// Blocks reads the memory of an agent. [haft.Memory] has the method.
type Blocks interface {
	Blocks(ctx context.Context, p haft.Principal, f haft.BlockFilter) ([]haft.Block, error)
}

// Agents finds agents. [haft.Agents] has the method.
type Agents interface {
	Agent(ctx context.Context, p haft.Principal, ref string) (*haft.Agent, error)
}

// A Config says who talks to whom, and where.
type Config struct {
	Conversations haft.Conversations
	// Approvals answers requests. Nil means that nobody is asked, and that the turn waits for others.
	Approvals Approvals
	// Memory and Agents are for /memory and /tools. Without them there are no such commands.
	Memory Blocks
	Agents Agents
	// Principal sends messages: it acts as the agent. Approver answers requests, which an agent may not; it is
	// Principal if it is empty.
	Principal, Approver haft.Principal
	// Agent is the name or id of the agent.
	Agent string
	// Model replaces that of the agent, and Budget bounds each turn. Both may be empty.
	Model  string
	Budget haft.Budget
	In     io.Reader
	Out    io.Writer
	// Notes gets what is not an answer if there is no terminal. Nil drops it.
	Notes io.Writer
	// TTY says that In and Out are a terminal. Run has it in raw mode while it runs.
	TTY bool
	// Width is how many columns the terminal has. Nil or 0 means 80.
	Width func() int
	// Colour allows colours on the terminal.
	Colour bool
	// JSON writes each [haft.TurnEvent] as a line of JSON instead, as without a terminal.
	JSON bool
	// Resume shows the last messages, and follows the turn that is under way. Such a turn is followed also if Resume
	// is not set.
	Resume bool
	// Since is when the process began: a turn that has ended since then went on by that, and is shown like one that is
	// under way.
	Since time.Time
	// Interrupts are signals that stop the turn, and the conversation if there is none. A terminal in raw mode sends
	// no signals for Ctrl-C: Run notices the key itself.
	Interrupts <-chan os.Signal
}

// errLeave says that the person leaves.
var errLeave = errors.New("leave")

// maxLine bounds a message, in bytes, and longLine a line that is typed, in characters: the editor takes no more.
const (
	maxLine  = 1 << 20
	longLine = 4096
)

// A session is one conversation.
type session struct {
	Config
	keys *keyboard
	view *screen
	edit *editor // nil without a terminal
	open haft.TurnID
}

// Run talks to an agent until the person leaves or the input ends. Without a terminal it returns an error for the first
// turn that fails, or that waits for a person ([haft.CodeDenied]).
//
// The goroutine that reads the input may be in a read when Run returns; it ends with that read.
func Run(ctx context.Context, cfg Config) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	cfg.TTY = cfg.TTY && !cfg.JSON
	if cfg.Approver.Org == "" {
		cfg.Approver = cfg.Principal
	}
	s := &session{Config: cfg, keys: newKeyboard(ctx),
		view: &screen{out: cfg.Out, notes: cfg.Notes, tty: cfg.TTY, colour: cfg.Colour && cfg.TTY, cols: cfg.Width}}
	running.Go(func() {
		for {
			select {
			case <-cfg.Interrupts:
				signal(s.keys.interrupts)
			case <-ctx.Done():
				return
			}
		}
	})
	next := s.plainInput()
	s.keys.raw = cfg.TTY
	go s.keys.listen(cfg.In)
	if cfg.TTY {
		restore, failed := makeRaw(cfg.In)
		if failed != nil {
			return fmt.Errorf("prepare the terminal: %w", failed)
		}
		defer func() { err = errors.Join(err, restore()) }()
		defer s.view.send(cfg.Out, []byte(wrapOn))
		s.view.send(cfg.Out, []byte(wrapOff))
		s.edit = newEditor(s.keys, s.view)
		next = s.prompt
		s.view.note("talking to " + cfg.Agent + ": /help shows what else you can do, Ctrl-D leaves")
	}
	for err = s.resume(ctx); err == nil; err = s.handle(ctx, err) {
		var text string
		if text, err = next(); err == nil && strings.TrimSpace(text) != "" {
			err = s.say(ctx, text)
		}
	}
	return s.leave(err)
}

// handle shows an error to a person, who goes on, or returns it.
func (s *session) handle(ctx context.Context, err error) error {
	switch {
	case s.view.err != nil:
		return s.view.err
	case err == nil || !s.TTY || ctx.Err() != nil || errors.Is(err, errLeave) || errors.Is(err, io.EOF):
		return err
	case errors.Is(err, errInterrupted):
		return errLeave
	}
	next := ""
	switch haft.CodeOf(err) {
	case haft.CodeConflict:
		next = "/cancel ends the turn that is under way; haft chat " + s.Agent + " --resume follows it"
	case haft.CodeDenied, haft.CodeUnauthenticated:
		next = "talk as somebody who may use this agent: --user, --role"
	case haft.CodeRateLimited, haft.CodeUnavailable:
		next = "try again in " + haft.RetryAfterOf(err).String()
	}
	s.view.problem(err.Error(), next)
	return nil
}

// leave ends the session, and says how to come back to a turn that is under way.
func (s *session) leave(err error) error {
	s.view.end()
	if s.open != "" {
		s.view.note("the turn goes on without you; come back to it with: haft chat " + s.Agent + " --resume")
	}
	switch {
	case errors.Is(err, errLeave) || errors.Is(err, io.EOF):
		return s.view.err
	case errors.Is(err, errInterrupted):
		return context.Canceled
	}
	return err
}

// prompt asks a person for a message. It has several lines if they end with a backslash or are pasted together.
func (s *session) prompt() (string, error) {
	var lines []string
	mark := paint(s.Colour, terminal.Bold, "> ")
	for size := 0; ; {
		line, pasted, err := s.edit.readLine(mark)
		if err != nil {
			return "", err
		}
		if size += len(line); size > maxLine || !pasted && utf8.RuneCountInString(line) >= longLine {
			s.view.problem("this is too long to be typed, and nothing is sent",
				"send it from a file: haft chat "+s.Agent+" < FILE")
			return "", nil
		}
		rest, more := strings.CutSuffix(line, `\`)
		if lines = append(lines, rest); !more && !pasted {
			lines[len(lines)-1] = line
			return strings.Join(lines, "\n"), nil
		}
		if pasted {
			lines[len(lines)-1] = line
		}
		mark = paint(s.Colour, terminal.Dim, ". ")
	}
}

// plainInput returns a function that returns the lines of the input.
func (s *session) plainInput() func() (string, error) {
	scan := bufio.NewScanner(s.keys)
	scan.Buffer(nil, maxLine)
	return func() (string, error) {
		switch more, err := scan.Scan(), scan.Err(); {
		case more:
			return scan.Text(), nil
		case errors.Is(err, bufio.ErrTooLong):
			return "", &haft.Error{Code: haft.CodeInvalid, Message: "a message is a line of at most 1 MiB", Err: err}
		default:
			return "", cmp.Or(err, io.EOF)
		}
	}
}

// say sends a message, or does what a command says.
func (s *session) say(ctx context.Context, text string) error {
	if s.TTY {
		if line, ok := strings.CutPrefix(text, "/"); ok && !strings.HasPrefix(line, "/") {
			return s.command(ctx, line)
		} else if ok {
			text = line
		}
	}
	m := haft.NewMessage{Text: text, Model: s.Model, Budget: s.Budget, Key: rand.Text()}
	return s.follow(ctx, &turnView{send: &m})
}

// resume shows the last messages and follows the turn that is under way, if there is one.
func (s *session) resume(ctx context.Context) error {
	list, turn, err := s.recent(ctx)
	if err != nil || turn == nil && !s.Resume {
		return err
	}
	v := &turnView{}
	for i := len(list) - 1; i >= 0; i-- {
		if turn != nil && turn.Final() && list[i].Created.After(s.Since) {
			break // it is shown as if it came now
		}
		if i < recentShown && !s.JSON {
			s.view.message(list[i])
		}
		v.seq = max(v.seq, list[i].Seq)
	}
	if turn == nil {
		return nil
	}
	if !turn.Final() {
		s.view.note("a turn is under way: Ctrl-C cancels it")
	}
	v.id = turn.ID
	return s.handle(ctx, s.follow(ctx, v))
}

// How many of the last messages are looked at for a turn that is under way, and shown.
const (
	recentMessages = 20
	recentShown    = 6
)

// recent returns the last messages, newest first, and the turn of theirs that has not ended before this began. Each
// sender has one turn of an agent at a time, so that it is among them.
func (s *session) recent(ctx context.Context) (list []haft.Message, open *haft.Turn, err error) {
	list, err = s.Conversations.Messages(ctx, s.Principal, s.Agent, haft.MessageFilter{Newest: true,
		Limit: recentMessages})
	seen := map[haft.TurnID]bool{}
	for _, m := range list {
		if err != nil || seen[m.Turn] {
			continue
		}
		seen[m.Turn] = true
		t, err := s.Conversations.Turn(ctx, s.Principal, m.Turn)
		if haft.CodeOf(err) == haft.CodeNotFound {
			continue // it is older than turns are kept
		}
		if err != nil {
			return nil, nil, err
		}
		live := !t.Final() || !s.Since.IsZero() && t.Ended.After(s.Since)
		if who := t.Principal.Owner(); live && (who == "" || who == s.Principal.Owner()) {
			return list, t, nil
		}
	}
	return list, nil, err
}
