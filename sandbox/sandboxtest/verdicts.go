package sandboxtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"haft"
)

// VerdictsVar is the environment variable that names a directory. A run of the whole
// suite leaves its [Verdicts] there, in a file with the name of the test and of who ran
// it: TestConformance-root.json or TestConformance-user.json.
const VerdictsVar = "HAFT_VERDICTS"

// Verdicts are what became of all cases in one mode of a provider.
type Verdicts struct {
	Missing []haft.Control     `json:"missing"` // in the order of [haft.Controls]
	Cases   map[string]Verdict `json:"cases"`
}

// A summary collects verdicts.
type summary struct {
	mu    sync.Mutex
	cases map[string]Verdict
}

// add remembers one.
func (s *summary) add(name string, v Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cases[name] = v
}

// String is the last line of the suite.
func (s *summary) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := map[Verdict]int{}
	for _, v := range s.cases {
		n[v]++
	}
	return fmt.Sprintf("conformance: %d held, %d stated, %d broken, %d skipped",
		n[Held], n[Stated], n[Broken], n[Skipped])
}

// write leaves the verdicts of a run of that many cases where VerdictsVar says. One
// that was asked for fewer leaves none.
func (s *summary) write(test string, iso haft.Isolation, cases int) error {
	dir := os.Getenv(VerdictsVar)
	s.mu.Lock()
	defer s.mu.Unlock()
	if dir == "" || len(s.cases) < cases {
		return nil
	}
	v := Verdicts{Cases: s.cases}
	for _, c := range haft.Controls() {
		if !iso.Has(c) {
			v.Missing = append(v.Missing, c)
		}
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode verdicts: %w", err)
	}
	who := "-user.json"
	if os.Geteuid() == 0 {
		who = "-root.json"
	}
	if err := os.WriteFile(filepath.Join(dir, test+who), data, 0o644); err != nil {
		return fmt.Errorf("write verdicts: %w", err)
	}
	return nil
}
