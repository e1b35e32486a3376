package advisory

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/internal/requirement"
)

// A Package is one locked package.
type Package struct {
	// Ecosystem is PyPI or npm.
	Ecosystem, Name, Version string
}

// A Scanner finds advisories about packages. It reads its file when it is first needed, and again when
// the file has changed. It is safe for concurrent use.
type Scanner struct {
	name string

	mu   sync.Mutex
	db   database
	when time.Time
	size int64
}

// New returns a scanner for a file, a directory or a zip archive; "" knows no advisories.
func New(name string) *Scanner { return &Scanner{name: name} }

// Configured reports whether there is something to scan with.
func (s *Scanner) Configured() bool { return s != nil && s.name != "" }

// load returns the advisories as they are now.
func (s *Scanner) load() (database, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Stat(s.name)
	if err != nil {
		return nil, fmt.Errorf("read advisories: %w", err)
	}
	if s.db != nil && s.unchanged(info) {
		return s.db, nil
	}
	db, err := read(s.name)
	if err != nil {
		return nil, err
	}
	s.db, s.when, s.size = db, info.ModTime(), info.Size()
	return db, nil
}

func (s *Scanner) unchanged(info fs.FileInfo) bool {
	return info.ModTime().Equal(s.when) && info.Size() == s.size
}

// Scan returns a finding for each advisory about a package, the worst first. Aliases of one
// advisory are one finding.
func (s *Scanner) Scan(packages []Package) ([]haft.Finding, error) {
	if !s.Configured() || len(packages) == 0 {
		return nil, nil
	}
	db, err := s.load()
	if err != nil {
		return nil, &haft.Error{Code: haft.CodeUnavailable, Err: err,
			Message: "the packages cannot be checked: the advisories of --osv (HAFT_OSV) cannot be read"}
	}
	var all []haft.Finding
	for _, p := range packages {
		var seen []string
		for _, a := range db[keyOf(p.Ecosystem, p.Name)] { // those that state a severity first, the worst first
			names := append([]string{a.id}, a.aliases...)
			if !a.affects(p) || slices.ContainsFunc(names, func(n string) bool { return slices.Contains(seen, n) }) {
				continue
			}
			seen = append(seen, names...)
			message := fmt.Sprintf("%s %s has a known vulnerability", p.Name, p.Version)
			if fixed := a.fixedIn(p); fixed != "" {
				message += ", fixed in " + fixed
			}
			if a.summary != "" {
				message += ": " + plain(a.summary)
			}
			all = append(all, haft.Finding{Scanner: "osv", Rule: plain(a.id), Severity: a.severity, Message: message})
		}
	}
	slices.SortStableFunc(all, func(a, b haft.Finding) int { return worse(a.Severity, b.Severity) })
	return all, nil
}

// worse orders severities, the worst first.
func worse(a, b haft.Severity) int {
	return cmp.Compare(slices.Index(haft.Severities(), b), slices.Index(haft.Severities(), a))
}

// plain is a text of an advisory as one short line.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if runes := []rune(text); len(runes) > 200 {
		return string(runes[:200]) + "…"
	}
	return text
}

// compare orders versions of a package.
func (p Package) compare(a, b string) (int, bool) {
	if p.Ecosystem == "npm" {
		return requirement.CompareNPM(a, b)
	}
	return requirement.ComparePip(a, b)
}

// affects reports whether the advisory is about the version of p. A version that cannot be compared is
// taken to be affected.
func (a *advisory) affects(p Package) bool {
	if len(a.ranges)+len(a.versions) == 0 {
		return true // all versions
	}
	if slices.ContainsFunc(a.versions, func(v string) bool {
		c, ok := p.compare(p.Version, v)
		return v == p.Version || ok && c == 0
	}) {
		return true
	}
	return slices.ContainsFunc(a.ranges, func(events []event) bool { return within(events, p) })
}

// within reports whether a version lies in a range: after the last event that begins it, there is none
// that ends it before the version.
func within(events []event, p Package) bool {
	begin, begun := "", false
	for _, e := range events {
		if e.Introduced == "" {
			continue
		}
		c, ok := p.compare(p.Version, e.Introduced)
		if !ok && e.Introduced != "0" {
			return true
		}
		later, _ := p.compare(e.Introduced, begin)
		if (e.Introduced == "0" || c >= 0) && (!begun || later > 0) {
			begin, begun = e.Introduced, true
		}
	}
	if !begun {
		return false
	}
	return !slices.ContainsFunc(events, func(e event) bool {
		end := cmp.Or(e.Fixed, e.LastAffected)
		after, ok := p.compare(p.Version, end)
		since, _ := p.compare(end, begin)
		return end != "" && ok && since >= 0 && (after > 0 || after == 0 && e.Fixed != "")
	})
}

// fixedIn is the lowest version above that of p in which the advisory is fixed; "" means none.
func (a *advisory) fixedIn(p Package) string {
	best := ""
	for _, events := range a.ranges {
		for _, e := range events {
			if e.Fixed == "" {
				continue
			}
			above, ok := p.compare(e.Fixed, p.Version)
			lower, _ := p.compare(e.Fixed, best)
			if ok && above > 0 && (best == "" || lower < 0) {
				best = e.Fixed
			}
		}
	}
	return plain(best)
}
