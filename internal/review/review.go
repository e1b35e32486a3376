package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"haft"
)

// The bounds on a review.
const (
	// MaxSource is the largest source that is reviewed, in bytes.
	MaxSource = 1 << 20
	// MaxFindings is how many findings a report has at most.
	MaxFindings = 100
	// MaxOutput is the most that the scripts write, in bytes.
	MaxOutput = 1 << 20
)

// ErrReaderDied is wrapped by the error of [Config.Python] and [Config.Bandit]
// when the script ran and died or was stopped for its use of time or memory.
// That is the fault of the source, and so a finding.
var ErrReaderDied = errors.New("the reader of the source died")

// Config is what a reviewer needs of others. Without Python, Python source
// cannot be reviewed, which is an error and not an empty report.
type Config struct {
	// Python runs a script of ours in a confined interpreter, CPython 3.9 or
	// newer with the flags -I and -S, gives it input on standard input and
	// returns its standard output, of at most [MaxOutput] bytes.
	Python func(ctx context.Context, script string, input []byte) ([]byte, error)
	// Bandit runs [BanditScript], or bandit -f json itself, on source in a
	// confined interpreter that has bandit and returns what it wrote. Nil means
	// that there is none, and the report says so.
	Bandit func(ctx context.Context, source []byte) ([]byte, error)
	// Several says that the source is one of several files of a tool, which can run or use each
	// other in ways that only show here.
	Several bool
}

// A Report is what was found in a source.
type Report struct {
	// Findings are ordered by line, rule and scanner.
	Findings []haft.Finding
	// Notes say what was not looked at, and why.
	Notes []string
}

// A Reviewer reviews sources. It is safe for concurrent use if the functions of
// its Config are.
type Reviewer struct {
	cfg Config
}

// New returns a reviewer. It starts nothing.
func New(cfg Config) *Reviewer { return &Reviewer{cfg: cfg} }

// Review returns the findings about a source. Without a kind it is data, which is searched for
// secrets and for text that deceives readers. An error means that it was not reviewed, and
// must not be treated as clean.
func (r *Reviewer) Review(ctx context.Context, kind haft.Kind, source string) (Report, error) {
	if len(source) > MaxSource {
		return Report{}, &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("the source has %d bytes, %d is the most", len(source), MaxSource)}
	}
	n := &notes{ctx: ctx, several: r.cfg.Several, lines: 1 + strings.Count(source, "\n"), seen: map[mark]bool{}}
	reviewText(n, source)
	reviewSecrets(n, kind, source)
	err := r.read(ctx, n, kind, source)
	if ctx.Err() != nil {
		return Report{}, fmt.Errorf("review source: %w", context.Cause(ctx))
	}
	if err != nil {
		return Report{}, fmt.Errorf("review source: %w", err)
	}
	return n.report(), nil
}

// read looks at a source by means of its language.
func (r *Reviewer) read(ctx context.Context, n *notes, kind haft.Kind, source string) (err error) {
	defer func() {
		if recover() != nil { // the fault of a parser is no reason to call a source clean
			n.add(ruleUnreadable, 1)
		}
	}()
	switch kind {
	case haft.KindPython:
		if err := r.python(ctx, n, source); err != nil {
			return err
		}
		return r.bandit(ctx, n, source)
	case haft.KindJavaScript, haft.KindTypeScript:
		return reviewJS(ctx, n, kind, source)
	case haft.KindBash:
		reviewBash(n, source)
		return nil
	case "": // data
		return nil
	}
	return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("tools of kind %q have no source", kind)}
}

// notes gather findings.
type notes struct {
	ctx      context.Context // of the one Review that they are of
	several  bool
	lines    int
	findings []haft.Finding
	seen     map[mark]bool
	notes    []string
}

// mark is what two findings may not share.
type mark struct {
	scanner, rule string
	line          int
}

// maxKept bounds what is kept before the most severe are chosen. A source of a
// mebibyte has fewer lines than rules can fill.
const maxKept = 1 << 20

// stopped reports whether the review was cancelled.
func (n *notes) stopped() bool { return n.ctx.Err() != nil }

// add notes a finding of ours. The rule must be in the table.
func (n *notes) add(rule string, line int) {
	r, ok := rules()[rule]
	if !ok { // a mistake of ours, which must not hide the finding
		r = Rule{ID: rule, Severity: high, What: "a rule without a name was broken",
			Instead: "report this to the makers of Haft"}
	}
	n.keep(haft.Finding{Scanner: Scanner, Rule: r.ID, Severity: r.Severity, Line: line, Message: r.message()})
}

// keep notes a finding once.
func (n *notes) keep(f haft.Finding) {
	f.Line = min(max(f.Line, 1), n.lines)
	m := mark{f.Scanner, f.Rule, f.Line}
	if n.seen[m] || len(n.findings) >= maxKept {
		return
	}
	n.seen[m] = true
	n.findings = append(n.findings, f)
}

// report returns the findings. If there are too many, the most severe are kept.
func (n *notes) report() Report {
	all := n.findings
	slices.SortFunc(all, func(a, b haft.Finding) int {
		order := slices.Index(haft.Severities(), b.Severity) - slices.Index(haft.Severities(), a.Severity)
		return cmp.Or(order, inOrder(a, b))
	})
	var more *haft.Finding
	if len(all) > MaxFindings {
		rest := all[MaxFindings-1:]
		r := rules()[ruleMore]
		more = &haft.Finding{Scanner: Scanner, Rule: r.ID, Severity: rest[0].Severity, Line: n.lines,
			Message: fmt.Sprintf("and %d more findings like these; %s", len(rest), r.Instead)}
		all = all[:MaxFindings-1]
	}
	slices.SortFunc(all, inOrder)
	if more != nil {
		all = append(all, *more)
	}
	return Report{Findings: slices.Clip(all), Notes: n.notes}
}

// inOrder is the order of reports.
func inOrder(a, b haft.Finding) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Scanner, b.Scanner))
}
