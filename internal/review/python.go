package review

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"haft"
)

//go:embed review.py
var pythonSource string

//go:embed review_rules.py
var pythonRulesSource string

//go:embed bandit.py
var banditSource string

// pythonScript is the script that reads Python source by its syntax tree, with the
// tables of this package in it: source on standard input, JSON on standard output. It
// imports a few modules of the standard library and nothing of the source.
var pythonScript = sync.OnceValue(func() string {
	table := [][2]string{}
	for _, s := range stringPatterns() {
		table = append(table, [2]string{s.rule, s.pattern})
	}
	text, err := json.Marshal(table)
	if err != nil {
		panic(err) // a table of texts
	}
	return strings.Replace(pythonSource+pythonRulesSource, "STRING_RULES = []", "STRING_RULES = "+string(text), 1)
})

// BanditScript returns the script that runs bandit on source, for an interpreter
// that finds bandit in its path: source on standard input, JSON on standard
// output, as bandit -f json writes it but without a word of the source.
func BanditScript() string { return banditSource }

// pythonAnswer is what review.py writes. It names rules and lines, so that no
// text of the source can get into a report by that way.
type pythonAnswer struct {
	Error    *struct{ Line int } `json:"error"`
	Findings []struct {
		Rule string `json:"r"`
		Line int    `json:"l"`
	} `json:"findings"`
	// Shell are constant command lines, to be reviewed as Bash.
	Shell []struct {
		Text string `json:"t"`
		Line int    `json:"l"`
	} `json:"shell"`
}

// python reviews the syntax tree.
func (r *Reviewer) python(ctx context.Context, n *notes, source string) error {
	if r.cfg.Python == nil {
		return &haft.Error{Code: haft.CodeUnavailable,
			Message: "Python source cannot be reviewed: there is no interpreter to read it"}
	}
	script := pythonScript()
	if n.several {
		script = strings.Replace(script, "SEVERAL = False", "SEVERAL = True", 1)
	}
	out, err := r.cfg.Python(ctx, script, []byte(source))
	var a pythonAnswer
	if ok, err := n.decode("the reader of Python source", out, err, &a); !ok {
		return err
	}
	if a.Error != nil {
		n.add(ruleUnreadable, a.Error.Line)
	}
	for _, f := range a.Findings {
		if _, known := rules()[f.Rule]; !known {
			return errors.New("the reader of Python source names a rule that there is not")
		}
		n.add(f.Rule, f.Line)
	}
	for _, s := range a.Shell {
		reviewCommand(n, s.Text, s.Line)
	}
	return nil
}

// decode reads the answer of a script, and reports whether there is one. A crash of the
// script is a finding.
func (n *notes) decode(who string, out []byte, err error, to any) (bool, error) {
	switch {
	case errors.Is(err, ErrReaderDied):
		n.add(ruleUnreadable, 1)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("run %s: %w", who, err)
	case len(out) > MaxOutput:
		return false, fmt.Errorf("%s wrote %d bytes, %d is the most", who, len(out), MaxOutput)
	}
	if err := json.Unmarshal(out, to); err != nil {
		return false, fmt.Errorf("%s wrote no JSON: %w", who, err)
	}
	return true, nil
}

// banditAnswer is what of bandit's JSON is used. Its texts and excerpts are not:
// they quote the source, and with it passwords.
type banditAnswer struct {
	Missing bool `json:"missing"`
	Errors  []struct {
		Reason string `json:"reason"`
	} `json:"errors"`
	Results *[]struct {
		ID         string `json:"test_id"`
		Name       string `json:"test_name"`
		Severity   string `json:"issue_severity"`
		Confidence string `json:"issue_confidence"`
		Line       int    `json:"line_number"`
	} `json:"results"`
}

// What bandit calls its tests.
var (
	banditID   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z][0-9]{3}$`) })
	banditName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_]{0,60}$`) })
)

// noBandit is the note where there is none.
const noBandit = "bandit is not installed: this source was reviewed by Haft's own rules only"

// bandit runs bandit on the source. It is a second scanner: if it is missing or cannot
// read something, that is a note in the report and no error.
func (r *Reviewer) bandit(ctx context.Context, n *notes, source string) error {
	if r.cfg.Bandit == nil {
		n.notes = append(n.notes, noBandit)
		return nil
	}
	out, err := r.cfg.Bandit(ctx, []byte(source))
	var a banditAnswer
	if ok, err := n.decode("bandit", out, err, &a); !ok {
		return err
	}
	switch {
	case a.Missing:
		n.notes = append(n.notes, noBandit)
		return nil
	case a.Results == nil:
		return errors.New("bandit wrote no results")
	case len(a.Errors) > 0:
		n.notes = append(n.notes, "bandit could not read this source: it was reviewed by Haft's own rules only")
	}
	for _, f := range *a.Results {
		if !banditID().MatchString(f.ID) || !banditName().MatchString(f.Name) {
			return errors.New("bandit names a test in a way that it does not")
		}
		n.keep(haft.Finding{Scanner: "bandit", Rule: f.ID, Severity: banditSeverity(f.Severity, f.Confidence),
			Line:    f.Line,
			Message: strings.ReplaceAll(f.Name, "_", " ") + "; see the documentation of bandit for " + f.ID})
	}
	return nil
}

// banditSeverity makes one severity of bandit's two scales. Bandit reports a
// construct and not what is done with it, so nothing of it is critical, and what
// it is not sure of counts one step less.
func banditSeverity(severity, confidence string) haft.Severity {
	level := map[string]int{"LOW": 0, "MEDIUM": 1, "HIGH": 2, "UNDEFINED": 0}
	s, ok := level[severity]
	if !ok {
		return high // a word of a later bandit
	}
	if c, ok := level[confidence]; ok && c == 0 && s > 0 {
		s--
	}
	return haft.Severities()[s]
}
