package layer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"haft"
	"haft/internal/requirement"
)

// npm keeps npm to our settings. The two files of settings do not exist; npm refuses one name
// for both. A layer holds package.json and the lock beside node_modules.
func (st *step) npm() program {
	offline := ""
	if st.in.Index.Offline {
		offline = "true"
	}
	install := slices.Concat(st.in.NPM, []string{"ci", "--prefix", st.target(), "--omit=dev", "--install-links=true"})
	if !st.in.Scripts {
		install = append(install, "--ignore-scripts")
	}
	return program{
		name: "npm",
		env: variables("npm_config_userconfig", st.inside("user.npmrc"),
			"npm_config_globalconfig", st.inside("global.npmrc"), "npm_config_cache", st.inside("cache"),
			"npm_config_audit", "false", "npm_config_fund", "false", "npm_config_update_notifier", "false",
			"npm_config_progress", "false", "npm_config_color", "false", "npm_config_fetch_retries", "2",
			"npm_config_fetch_timeout", "30000", "npm_config_fetch_retry_mintimeout", "500",
			"npm_config_fetch_retry_maxtimeout", "3000", "npm_config_omit_lockfile_registry_resolved", "true",
			"npm_config_logs_max", "0", "npm_config_registry", st.in.Index.Registry, "npm_config_offline", offline),
		resolve: slices.Concat(st.in.NPM, []string{"install", "--prefix", st.inside("project"), "--package-lock-only",
			"--ignore-scripts"}),
		install: install,
		result:  "project/package-lock.json",
		ask: func(set requirement.Set) error {
			dependencies := map[string]string{}
			for _, n := range set.NPM {
				dependencies[n.Name] = n.Range
			}
			if err := st.scratch.mkdir("project"); err != nil {
				return explain("write for the installer", err)
			}
			return st.scratch.putJSON("project/package.json", npmPackage(dependencies))
		},
		lock: func(text []byte) ([]byte, error) {
			lock, _, err := npmLock(text)
			return lock, err
		},
		prepare: func(lock []byte) (bool, error) { return false, st.putNPM(lock) },
		finish: func(context.Context) error {
			return explain("keep what was installed", st.files.mkdir("node_modules"))
		},
	}
}

// npmPackage is the package.json of a layer.
func npmPackage(dependencies map[string]string) map[string]any {
	return map[string]any{"name": "haft-layer", "version": "0.0.0", "private": true, "dependencies": dependencies}
}

// putNPM checks a lock and writes it into the layer.
func (st *step) putNPM(lock []byte) error {
	lock, dependencies, err := npmLock(lock)
	if err != nil {
		return err
	}
	for name, rng := range dependencies {
		st.set.NPM = append(st.set.NPM, requirement.NPM{Name: name, Range: rng})
	}
	if err := st.files.putJSON("package.json", npmPackage(dependencies)); err != nil {
		return err
	}
	if err := st.files.put("package-lock.json", lock); err != nil {
		return explain("write for the installer", err)
	}
	// The directory must be there even if nothing is asked for: it is mounted.
	return explain("write for the installer", st.files.mkdir("node_modules"))
}

var (
	npmPlace = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`^(?:node_modules/(?:@[A-Za-z0-9._~-]+/)?[A-Za-z0-9._~-]+)(?:/node_modules/(?:@[A-Za-z0-9._~-]+/)?[A-Za-z0-9._~-]+)*$`)
	})
	npmIntegrity = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^sha(?:256|384|512)-[A-Za-z0-9+/=]+(?: sha[0-9]+-[A-Za-z0-9+/=]+)*$`)
	})
)

// maxNPMPackages bounds a lock.
const maxNPMPackages = 5000

// npmLock checks the lock of npm and returns it in its normal form, with what it was
// asked for. Every package comes from the registry and has a hash.
func npmLock(text []byte) (lock []byte, dependencies map[string]string, err error) {
	if len(text) > requirement.MaxLock {
		return nil, nil, &haft.Error{Code: haft.CodeInvalid, Message: "the npm lock is too large"}
	}
	bad := func(format string, args ...any) error {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the npm lock: " + fmt.Sprintf(format, args...)}
	}
	var doc struct {
		Version  int                        `json:"lockfileVersion"`
		Packages map[string]json.RawMessage `json:"packages"`
	}
	if err := json.Unmarshal(text, &doc); err != nil || doc.Version < 2 || doc.Packages == nil {
		return nil, nil, bad("it is not one of version 2 or newer")
	}
	if len(doc.Packages) > maxNPMPackages {
		return nil, nil, bad("it has %d packages, %d is the most", len(doc.Packages), maxNPMPackages)
	}
	for place, raw := range doc.Packages {
		var p struct {
			Version      string            `json:"version"`
			Resolved     string            `json:"resolved"`
			Integrity    string            `json:"integrity"`
			Link         bool              `json:"link"`
			InBundle     bool              `json:"inBundle"`
			Dependencies map[string]string `json:"dependencies"`
		}
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, nil, bad("a package is not described as it should be")
		}
		if place == "" {
			dependencies = p.Dependencies
			continue
		}
		switch {
		case len(place) > 1000 || !npmPlace().MatchString(place) || strings.Contains(place, "/../") ||
			strings.HasSuffix(place, "/.."):
			return nil, nil, bad("a package is not in node_modules")
		case p.Link:
			return nil, nil, bad("%s is a link and no package", place)
		case p.Resolved != "" && !strings.HasPrefix(p.Resolved, "https://") &&
			!strings.HasPrefix(p.Resolved, "http://"):
			return nil, nil, bad("%s does not come from the registry", place)
		case !p.InBundle && !npmIntegrity().MatchString(p.Integrity):
			return nil, nil, bad("%s has no hash", place)
		}
	}
	root, err := json.Marshal(map[string]any{"name": "haft-layer", "version": "0.0.0", "dependencies": dependencies})
	if err != nil {
		return nil, nil, fmt.Errorf("write the lock of npm: %w", err)
	}
	doc.Packages[""] = root
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err = enc.Encode(map[string]any{"name": "haft-layer", "version": "0.0.0", "lockfileVersion": doc.Version,
		"requires": true, "packages": doc.Packages})
	if err != nil {
		return nil, nil, fmt.Errorf("write the lock of npm: %w", err)
	}
	return out.Bytes(), dependencies, nil
}
