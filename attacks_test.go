package haft_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"haft"
	"haft/internal/goldentest"
	"haft/internal/skiptest"
	"haft/sandbox/sandboxtest"
)

const attackPage = "docs/attacks.md"

// An attackMode is a column of the page: a run of the conformance suite that leaves its verdicts in a file of the
// directory HAFT_VERDICTS, at the latest where part is required.
type attackMode struct{ name, file, part string }

// attackModes are the columns that the page can have. A new one is on it after the first -update that has its verdicts.
func attackModes() []attackMode {
	return []attackMode{
		{"root", "TestConformance-root", "container"},
		{"user", "TestConformance-user", "container"},
		{"reduced root", "TestConformance_reduced-root", "container"},
		{"reduced user", "TestConformance_reduced-user", "container"},
		{"Docker", "docker/TestConformance-user", "container"},
		{"Docker, no flags", "reduced-docker/TestConformance_reduced-user", "container"},
		{"gVisor", "gvisor/TestConformance-root", "gvisor"},
	}
}

// attacks is the page: the text, in which the rows about attacks have three cells
// (attack, what must happen, shown by), and the verdicts of each mode, from which all
// other cells are made.
type attacks struct {
	text    []string
	columns []attackMode
	modes   []sandboxtest.Verdicts // as columns
}

// The headers of the tables, without the columns of modes.
const (
	attackHeader = "| attack | what must happen | shown by |"
	modeHeader   = "| mode | held | stated | broken | controls that are missing |"
	caseHeader   = "| group | case |"
)

// readAttacks reads the page.
func readAttacks(t *testing.T) (attacks, string) {
	t.Helper()
	raw, err := os.ReadFile(attackPage)
	if err != nil {
		t.Fatal(err)
	}
	page := attacks{}
	_, columns, _ := strings.Cut(string(raw), "\n"+caseHeader)
	columns, _, _ = strings.Cut(columns, "\n")
	for _, m := range attackModes() {
		if slices.Contains(strings.Split(strings.Trim(columns, "| "), " | "), m.name) {
			page.columns = append(page.columns, m)
		}
	}
	page.modes = make([]sandboxtest.Verdicts, len(page.columns))
	header, rows := "", 0
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSuffix(line, "\n")
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |"), " | ")
		switch {
		case !strings.HasPrefix(line, "|"):
			header, rows = "", 0
		case header == "":
			for _, h := range []string{attackHeader, modeHeader, caseHeader} {
				if strings.HasPrefix(line, h) {
					header, line = h, h
				}
			}
		case strings.HasPrefix(line, "|---"):
			line = rule(header)
		case header == attackHeader:
			line = row(cells[:3])
		case header == modeHeader && rows < len(page.modes):
			for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[len(cells)-1], -1) {
				page.modes[rows].Missing = append(page.modes[rows].Missing, haft.Control(name[1]))
			}
			page.modes[rows].Cases = map[string]sandboxtest.Verdict{}
			rows++
			continue
		case header == caseHeader:
			for i := range min(len(page.modes), len(cells)-2) {
				page.modes[i].Cases[strings.Trim(cells[1], "`")] = sandboxtest.Verdict(cells[i+2])
			}
			continue
		}
		page.text = append(page.text, line)
	}
	return page, string(raw)
}

// row makes a row of a table.
func row(cells []string) string { return "| " + strings.Join(cells, " | ") + " |" }

// rule makes the line below a header.
func rule(header string) string { return strings.Repeat("|---", strings.Count(header, "|")-1) + "|" }

// String writes the page.
func (a attacks) String() string {
	var names []string
	for _, m := range a.columns {
		names = append(names, m.name)
	}
	var b strings.Builder
	header := ""
	for _, line := range a.text {
		switch {
		case line == attackHeader || line == caseHeader:
			header = line
			line += strings.TrimPrefix(row(names), "|")
		case line == modeHeader:
			header = line
		case strings.HasPrefix(line, "|---") && header != modeHeader:
			line += strings.Repeat("---|", len(names))
		case strings.HasPrefix(line, "| ") && header == attackHeader:
			line += strings.TrimPrefix(row(a.cells(line)), "|")
		}
		b.WriteString(line + "\n")
		if line == rule(modeHeader) && header == modeHeader {
			b.WriteString(a.modeRows())
		} else if header == caseHeader && strings.HasPrefix(line, "|---") {
			b.WriteString(a.caseRows())
		}
	}
	return b.String()
}

// cells says for each mode what became of the cases that a row about an attack names.
func (a attacks) cells(line string) []string {
	var all []string
	for _, m := range a.modes {
		n := map[sandboxtest.Verdict]int{}
		sum := 0
		for _, name := range regexp.MustCompile("`([^` ]+)`").FindAllStringSubmatch(line, -1) {
			if v, ok := m.Cases[name[1]]; ok {
				n[v]++
				sum++
			}
		}
		cell := fmt.Sprintf("%d of %d held", n[sandboxtest.Held], sum)
		for _, v := range []sandboxtest.Verdict{sandboxtest.Held, sandboxtest.Stated} {
			if n[v] == sum {
				cell = string(v)
			}
		}
		switch {
		case sum == 0:
			cell = "–"
		case n[sandboxtest.Broken] > 0:
			cell = "**broken**"
		}
		all = append(all, cell)
	}
	return all
}

// modeRows says what each mode is.
func (a attacks) modeRows() string {
	var b strings.Builder
	for i, m := range a.columns {
		n := map[sandboxtest.Verdict]int{}
		for _, v := range a.modes[i].Cases {
			n[v]++
		}
		var missing []string
		for _, c := range a.modes[i].Missing {
			missing = append(missing, "`"+string(c)+"`")
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %s |\n",
			m.name, n[sandboxtest.Held], n[sandboxtest.Stated], n[sandboxtest.Broken], strings.Join(missing, ", "))
	}
	return b.String()
}

// caseRows lists every case that exists.
func (a attacks) caseRows() string {
	var b strings.Builder
	for _, c := range sandboxtest.Cases() {
		cells := []string{string(c.Group), "`" + c.Name + "`"}
		for _, m := range a.modes {
			v, ok := m.Cases[c.Name]
			if !ok {
				v = "not run"
			}
			cells = append(cells, string(v))
		}
		b.WriteString(row(cells) + "\n")
	}
	return b.String()
}

// The page names exactly the cases that exist, and none is broken or was not run. Where
// HAFT_VERDICTS names a directory, the page says what has just come out there; on a
// machine that has other controls than the one that made it, only that nothing is broken.
func TestAttacks_page_is_made_from_what_ran(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the cases are those of linux/amd64")
	}
	page, old := readAttacks(t)
	dir := os.Getenv(sandboxtest.VerdictsVar)
	for _, m := range attackModes() {
		raw, err := os.ReadFile(filepath.Join(dir, m.file+".json"))
		if dir == "" || errors.Is(err, fs.ErrNotExist) {
			if dir != "" && skiptest.Required(m.part) {
				t.Errorf("the conformance suite left no verdicts for %s", m.name)
			}
			continue
		}
		var got sandboxtest.Verdicts
		if err == nil {
			err = json.Unmarshal(raw, &got)
		}
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range got.Cases {
			if v == sandboxtest.Broken {
				t.Errorf("%s: %s is broken", m.name, name)
			}
		}
		i := slices.Index(page.columns, m)
		if i < 0 && goldentest.Updating() {
			i = len(page.columns)
			page.columns = append(page.columns, m)
			page.modes = append(page.modes, sandboxtest.Verdicts{})
		}
		if i < 0 {
			t.Logf("the page has no column %s yet: -update adds it", m.name)
			continue
		}
		if !goldentest.Updating() && !slices.Equal(got.Missing, page.modes[i].Missing) {
			t.Logf("%s lacks %v here, and %v on the page: not compared", m.name, got.Missing, page.modes[i].Missing)
			continue
		}
		page.modes[i] = got
	}
	want := page.String()
	if goldentest.Updating() {
		if err := os.WriteFile(attackPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		old = want
	}
	if old != want {
		t.Errorf("%s is not what ran. After make test test-more: "+
			"%s=$PWD/.haft/verdicts go test . -run TestAttacks -update", attackPage, sandboxtest.VerdictsVar)
	}
	for i, m := range page.columns {
		for _, c := range sandboxtest.Cases() {
			if v := page.modes[i].Cases[c.Name]; v != sandboxtest.Held && v != sandboxtest.Stated {
				t.Errorf("%s: %s is %q", m.name, c.Name, v)
			}
		}
	}
}

// The page names tests, cases and scripts that exist.
func TestAttacks_are_those_that_are_tried(t *testing.T) {
	page, _ := readAttacks(t)
	cases := map[string]bool{}
	for _, c := range sandboxtest.Cases() {
		cases[c.Name] = true
	}
	tests := map[string]string{}
	named := 0
	for _, m := range regexp.MustCompile("`([^` ]+)`").FindAllStringSubmatch(strings.Join(page.text, "\n"), -1) {
		name := m[1]
		dir, test, isTest := strings.Cut(name, ".Test")
		switch {
		case isTest:
			if dir == "haft" {
				dir = "."
			}
			if tests[dir] == "" {
				tests[dir] = readTests(t, dir)
			}
			if !strings.Contains(tests[dir], "func Test"+test+"(") {
				t.Errorf("there is no %s", name)
			}
		case strings.HasSuffix(name, ".txtar"):
			if _, err := os.Stat("cmd/haft/testdata/script/" + name); err != nil {
				t.Error(err)
			}
		case strings.Count(name, "_") > 1 && strings.ToLower(name) == name:
			if !cases[name] && runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
				t.Errorf("the conformance suite has no %s", name)
			}
		default:
			continue
		}
		named++
	}
	if named < 200 {
		t.Errorf("the page names %d tests, want all of them", named)
	}
}

// readTests returns the tests of a directory.
func readTests(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	files, err := filepath.Glob(dir + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(raw)
	}
	return all.String()
}
