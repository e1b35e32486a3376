package advisory_test

import (
	"archive/zip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/advisory"
)

// urllib3 is an advisory as osv.dev has it, shortened.
const urllib3 = `{"id": "GHSA-q2q7-5pp4-w6pg", "aliases": ["CVE-2021-33503", "PYSEC-2021-108"],
 "summary": "Catastrophic backtracking in URL authority parser",
 "database_specific": {"severity": "HIGH"},
 "affected": [{"package": {"ecosystem": "PyPI", "name": "urllib3"},
  "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "1.25.4"}, {"fixed": "1.26.5"}]}]}]}`

// entry is an advisory about one package.
func entry(id, ecosystem, name, rest string) string {
	return `{"id": "` + id + `", "affected": [{"package": {"ecosystem": "` + ecosystem + `", "name": "` + name + `"}` +
		rest + `}]}`
}

func events(list string) string {
	return `, "ranges": [{"type": "SEMVER", "events": [` + list + `]}]`
}

// scanner is one for entries, each in a file.
func scanner(t *testing.T, entries ...string) *advisory.Scanner {
	t.Helper()
	dir := t.TempDir()
	for i, e := range entries {
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".json"), []byte(e), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return advisory.New(dir)
}

// rules are the advisories that are found about a package.
func rules(t *testing.T, s *advisory.Scanner, ecosystem, name, version string) []string {
	t.Helper()
	found, err := s.Scan([]advisory.Package{{Ecosystem: ecosystem, Name: name, Version: version}})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range found {
		all = append(all, f.Rule)
	}
	return all
}

func TestScan_urllib3(t *testing.T) {
	s := scanner(t, urllib3, entry("PYSEC-2021-108", "PyPI", "URLLIB3", events(`{"introduced": "0"}`)))
	found, err := s.Scan([]advisory.Package{{Ecosystem: "PyPI", Name: "urllib3", Version: "1.26.4"}})
	want := haft.Finding{Scanner: "osv", Rule: "GHSA-q2q7-5pp4-w6pg", Severity: haft.SeverityHigh,
		Message: "urllib3 1.26.4 has a known vulnerability, fixed in 1.26.5: " +
			"Catastrophic backtracking in URL authority parser"}
	if err != nil || len(found) != 1 || found[0] != want {
		t.Errorf("Scan = %+v, %v; want only %+v", found, err, want)
	}
}

func TestScan_versions(t *testing.T) {
	two := events(`{"introduced": "2.0.0"}, {"fixed": "2.1.0"}, {"introduced": "0"}, {"last_affected": "1.5.0"}`)
	for _, c := range []struct {
		name, ecosystem, rest, version string
		want                           bool
	}{
		{"before the fix", "PyPI", events(`{"introduced": "1.0"}, {"fixed": "1.26.5"}`), "1.26.4", true},
		{"as numbers, not as text", "PyPI", events(`{"introduced": "0"}, {"fixed": "1.10"}`), "1.9", true},
		{"the fix", "PyPI", events(`{"introduced": "0"}, {"fixed": "1.26.5"}`), "1.26.5", false},
		{"a candidate of the fix", "PyPI", events(`{"introduced": "0"}, {"fixed": "2.0"}`), "2.0rc1", true},
		{"before it began", "PyPI", events(`{"introduced": "1.0"}`), "0.9", false},
		{"never fixed", "npm", events(`{"introduced": "0"}`), "99.0.0", true},
		{"a local version", "PyPI", `, "versions": ["1.0"]`, "1.0+cpu", true},
		{"listed", "npm", `, "versions": ["1.0.1"]`, "1.0.1", true},
		{"not listed", "npm", `, "versions": ["1.0.1"]`, "1.0.2", false},
		{"the last that is affected", "npm", two, "1.5.0", true},
		{"between two ranges", "npm", two, "1.6.0", false},
		{"in the second", "npm", two, "2.0.5", true},
		{"after both", "npm", two, "2.1.0", false},
		{"before a release of npm", "npm", events(`{"introduced": "0"}, {"fixed": "1.0.0"}`), "1.0.0-rc.1", true},
		{"all versions", "npm", "", "1.0.0", true},
		{"a version that nobody can read", "npm", events(`{"introduced": "1.0.0"}, {"fixed": "2.0.0"}`), "latest", true},
		{"only commits", "npm",
			`, "versions": ["9.9.9"], "ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}]`, "1.0.0", false},
	} {
		got := rules(t, scanner(t, entry("X-1", c.ecosystem, "a", c.rest)), c.ecosystem, "a", c.version)
		if (len(got) == 1) != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestScan_other_packages_and_severities(t *testing.T) {
	s := scanner(t, entry("MAL-1", "npm", "left", ""), entry("X-2", "npm", "left", ""), entry("X-3", "Go", "left", ""),
		`[{"id": "X-4", "database_specific": {"severity": "LOW"},
			"affected": [{"package": {"ecosystem": "npm", "name": "left"}}]}]`,
		`{"id": "X-5", "withdrawn": "2024-01-01T00:00:00Z",
			"affected": [{"package": {"ecosystem": "npm", "name": "left"}}]}`)
	if got := rules(t, s, "npm", "left", "1.0.0"); !slices.Equal(got, []string{"MAL-1", "X-2", "X-4"}) {
		t.Errorf("found %v, want the worst first and none that is withdrawn", got)
	}
	if got := rules(t, s, "PyPI", "left", "1.0.0"); len(got) > 0 {
		t.Errorf("a package of another ecosystem is found: %v", got)
	}
	got, err := advisory.New("").Scan([]advisory.Package{{Ecosystem: "npm", Name: "left"}})
	if got != nil || err != nil {
		t.Errorf("without advisories: %v, %v", got, err)
	}
}

// What cannot be read is an error and never an empty answer.
func TestScan_fails_closed(t *testing.T) {
	one := []advisory.Package{{Ecosystem: "npm", Name: "a", Version: "1.0.0"}}
	missing := filepath.Join(t.TempDir(), "none.json")
	for name, s := range map[string]*advisory.Scanner{
		"missing": advisory.New(missing), "empty": scanner(t), "no JSON": scanner(t, "{"), "no id": scanner(t, `{"x": 1}`),
	} {
		if found, err := s.Scan(one); haft.CodeOf(err) != haft.CodeUnavailable {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
	if _, err := advisory.New(missing).Scan(one); strings.Contains(haft.MessageOf(err), missing) {
		t.Errorf("the message has the path: %v", err)
	}
}

// An archive is read like a directory, and again when it has changed.
func TestScan_archive(t *testing.T) {
	name := filepath.Join(t.TempDir(), "all.zip")
	write := func(text string, when time.Time) {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		z := zip.NewWriter(f)
		w, err := z.Create("x.json")
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		for _, err := range []error{err, z.Close(), f.Close(), os.Chtimes(name, when, when)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	s := advisory.New(name)
	write(entry("X-1", "npm", "a", ""), time.Unix(1000, 0))
	if got := rules(t, s, "npm", "a", "1.0.0"); !slices.Equal(got, []string{"X-1"}) {
		t.Errorf("found %v", got)
	}
	write(entry("X-2", "npm", "a", ""), time.Unix(2000, 0))
	if got := rules(t, s, "npm", "a", "1.0.0"); !slices.Equal(got, []string{"X-2"}) {
		t.Errorf("found %v after the archive changed", got)
	}
}

func TestPackages(t *testing.T) {
	pip, err := advisory.Packages("pip", []byte("urllib3==1.26.4 --hash=sha256:"+strings.Repeat("a", 64)+"\n"))
	if err != nil || !slices.Equal(pip, []advisory.Package{{Ecosystem: "PyPI", Name: "urllib3", Version: "1.26.4"}}) {
		t.Errorf("pip: %v, %v", pip, err)
	}
	npm, err := advisory.Packages("npm", []byte(`{"packages": {"": {"version": "9.9.9"},
		"node_modules/a": {"version": "1.0.0"}, "node_modules/a/node_modules/@s/b": {"version": "2.0.0"}, "node_modules/c": {"name": "real", "version": "3.0.0"}}}`))
	want := []advisory.Package{{Ecosystem: "npm", Name: "@s/b", Version: "2.0.0"},
		{Ecosystem: "npm", Name: "a", Version: "1.0.0"}, {Ecosystem: "npm", Name: "real", Version: "3.0.0"}}
	if err != nil || !slices.Equal(npm, want) {
		t.Errorf("npm: %v, %v", npm, err)
	}
	for _, bad := range []string{"a>=1", "[", "-e ."} {
		if got, err := advisory.Packages("pip", []byte(bad)); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
	if got, err := advisory.Packages("npm", []byte("[")); err == nil {
		t.Errorf("npm [: %v", got)
	}
}

func FuzzPackages(f *testing.F) {
	f.Add("npm", []byte(`{"packages":{"node_modules/a":{"version":"1"}}}`))
	f.Add("pip", []byte("a==1"))
	f.Fuzz(func(t *testing.T, kind string, lock []byte) {
		list, err := advisory.Packages(kind, lock)
		if err != nil {
			return
		}
		if _, err := scanner(t, urllib3).Scan(list); err != nil {
			t.Error(err)
		}
	})
}

// Of aliases of one advisory the worst counts, whatever their order.
func TestScan_aliases_count_as_the_worst(t *testing.T) {
	of := func(id, alias, severity string) string {
		return `{"id": "` + id + `", "aliases": ["` + alias + `"], "database_specific": {"severity": "` + severity +
			`"}, "affected": [{"package": {"ecosystem": "npm", "name": "left"}}]}`
	}
	s := scanner(t, of("A-1", "CVE-1", "LOW"), of("A-2", "CVE-1", "CRITICAL"), of("A-3", "CVE-1", "MODERATE"))
	if got := rules(t, s, "npm", "left", "1.0.0"); !slices.Equal(got, []string{"A-2"}) {
		t.Errorf("found %v", got)
	}
}
