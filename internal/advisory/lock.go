package advisory

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"haft/internal/requirement"
)

// Packages returns the packages that a lock file names. Its kind is pip or npm.
func Packages(kind string, lock []byte) ([]Package, error) {
	if kind == "npm" {
		return npmPackages(lock)
	}
	list, err := requirement.ReadLock("the lock", string(lock))
	if err != nil {
		return nil, err
	}
	var all []Package
	for _, p := range list {
		version, ok := p.Pinned()
		if !ok {
			return nil, fmt.Errorf("the lock does not say which version of %s is installed", p.Name)
		}
		all = append(all, Package{Ecosystem: "PyPI", Name: p.Name, Version: version})
	}
	return all, nil
}

// npmPackages reads a package-lock.json. A package may be there in several versions.
func npmPackages(lock []byte) ([]Package, error) {
	var doc struct {
		Packages map[string]struct {
			Name    string `json:"name"` // where it differs from the directory
			Version string `json:"version"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(lock, &doc); err != nil {
		return nil, fmt.Errorf("read the lock: %w", err)
	}
	seen := make(map[Package]bool)
	for dir, p := range doc.Packages {
		i := strings.LastIndex(dir, "node_modules/")
		if i < 0 {
			continue // the tool itself
		}
		name := p.Name
		if name == "" {
			name = dir[i+len("node_modules/"):]
		}
		seen[Package{Ecosystem: "npm", Name: name, Version: p.Version}] = true
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b Package) int {
		return strings.Compare(a.Name+" "+a.Version, b.Name+" "+b.Version)
	}), nil
}
