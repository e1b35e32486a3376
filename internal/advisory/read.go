package advisory

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"haft"
	"haft/internal/requirement"
)

// The bounds on what is read. The archive of npm, the largest, has about 250,000 files.
const (
	maxFile  = 16 << 20
	maxFiles = 1_000_000
	maxBytes = 4 << 30
)

// An advisory is what is kept of an entry of OSV about one package.
type advisory struct {
	id       string
	aliases  []string
	summary  string
	severity haft.Severity
	stated   bool // the advisory says how severe it is
	ranges   [][]event
	versions []string
}

// unstated orders advisories: 0 comes first.
func (a advisory) unstated() int {
	if a.stated {
		return 0
	}
	return 1
}

// An event is where a range of versions begins or ends.
type event struct {
	Introduced   string `json:"introduced"`
	Fixed        string `json:"fixed"`
	LastAffected string `json:"last_affected"`
}

// entry is an entry of OSV, as far as it is read.
type entry struct {
	ID        string   `json:"id"`
	Withdrawn string   `json:"withdrawn"`
	Aliases   []string `json:"aliases"`
	Summary   string   `json:"summary"`
	Database  struct {
		Severity string `json:"severity"`
	} `json:"database_specific"`
	Affected []struct {
		Package struct {
			Ecosystem string `json:"ecosystem"`
			Name      string `json:"name"`
		} `json:"package"`
		Ranges []struct {
			Type   string  `json:"type"`
			Events []event `json:"events"`
		} `json:"ranges"`
		Versions []string `json:"versions"`
	} `json:"affected"`
}

// A database has the advisories by ecosystem and package.
type database map[string][]advisory

// reader reads advisories and counts what it has read.
type reader struct {
	db    database
	files int
	bytes int64
}

// read reads a file, a directory or an archive.
func read(name string) (database, error) {
	r := &reader{db: database{}}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read advisories: %w", err)
	case info.IsDir():
		err = r.tree(os.DirFS(name))
	case strings.EqualFold(filepath.Ext(name), ".zip"):
		var z *zip.ReadCloser
		if z, err = zip.OpenReader(name); err == nil {
			err = r.tree(z)
			err = closed(err, z.Close())
		}
	default:
		err = r.file(os.DirFS(filepath.Dir(name)), filepath.Base(name))
	}
	if err != nil {
		return nil, fmt.Errorf("read advisories: %w", err)
	}
	if r.files == 0 {
		return nil, fmt.Errorf("read advisories: %s has no .json file", name)
	}
	for _, list := range r.db {
		slices.SortStableFunc(list, func(a, b advisory) int {
			return cmp.Or(cmp.Compare(a.unstated(), b.unstated()), worse(a.severity, b.severity))
		})
	}
	return r.db, nil
}

// closed returns the first of two errors.
func closed(err, also error) error {
	if err == nil {
		return also
	}
	return err
}

// tree reads the .json files of a directory, at any depth.
func (r *reader) tree(dir fs.FS) error {
	return fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".json") {
			return err
		}
		return r.file(dir, name)
	})
}

// file reads one entry, or a list of them.
func (r *reader) file(dir fs.FS, name string) error {
	f, err := dir.Open(name)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = closed(err, f.Close()); err != nil {
		return err
	}
	r.files++
	r.bytes += int64(len(data))
	if len(data) > maxFile || r.files > maxFiles || r.bytes > maxBytes {
		return fmt.Errorf("%s: there is more than can be read: %d bytes of a file, %d files, %d bytes of all", name,
			maxFile, maxFiles, int64(maxBytes))
	}
	var list []entry
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '[' {
		err = json.Unmarshal(data, &list)
	} else {
		list = make([]entry, 1)
		err = json.Unmarshal(data, &list[0])
	}
	if err != nil {
		return fmt.Errorf("%s is not in the OSV format: %w", name, err)
	}
	for i := range list {
		if list[i].ID == "" {
			return fmt.Errorf("%s is not in the OSV format: an entry has no id", name)
		}
		r.keep(&list[i])
	}
	return nil
}

// keep adds an entry to the database, if it is about a package that tools can have.
func (r *reader) keep(e *entry) {
	if e.Withdrawn != "" {
		return
	}
	for _, a := range e.Affected {
		eco, _, _ := strings.Cut(a.Package.Ecosystem, ":")
		if eco != "PyPI" && eco != "npm" {
			continue
		}
		kept := advisory{id: e.ID, aliases: e.Aliases, summary: e.Summary, versions: a.Versions}
		kept.severity, kept.stated = severityOf(e)
		for _, rng := range a.Ranges {
			if rng.Type != "GIT" {
				kept.ranges = append(kept.ranges, rng.Events)
			}
		}
		key := keyOf(eco, a.Package.Name)
		r.db[key] = append(r.db[key], kept)
	}
}

// keyOf is the key of a package in a database.
func keyOf(ecosystem, name string) string {
	if ecosystem == "PyPI" {
		name = requirement.NormalName(name)
	}
	return ecosystem + " " + name
}

// severityOf is how severe an advisory is, and whether it says so in a word. A malicious package is
// critical, and what nothing is said of counts as high.
func severityOf(e *entry) (s haft.Severity, stated bool) {
	if strings.HasPrefix(e.ID, "MAL-") {
		return haft.SeverityCritical, true
	}
	switch strings.ToUpper(e.Database.Severity) {
	case "LOW":
		return haft.SeverityLow, true
	case "MODERATE", "MEDIUM":
		return haft.SeverityMedium, true
	case "HIGH":
		return haft.SeverityHigh, true
	case "CRITICAL":
		return haft.SeverityCritical, true
	}
	return haft.SeverityHigh, false
}
