// Package userconfig is the configuration of a person who uses haft: profiles, each with a server, a
// key and defaults of flags, in one file of that person.
package userconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"haft/internal/toolfile"
)

// The bounds of a file.
const (
	maxFile     = 64 << 10
	maxProfiles = 100
)

// Settings are the flags that a profile may set, and what they are.
func Settings() map[string]string {
	return map[string]string{
		"server": "the URL of a server", "key-file": "the file with the key for it", "org": "the organisation",
		"user": "on whose behalf", "agent": "the agent that acts", "data": "the data directory",
		"database": "the URL of a Postgres", "print": "table, json, yaml or name",
	}
}

// A Config is the whole file.
type Config struct {
	// Use names the profile that counts if none is named.
	Use      string                       `json:"use,omitempty" yaml:"use,omitempty"`
	Profiles map[string]map[string]string `json:"profiles" yaml:"profiles"`
}

// Names are those of the profiles.
func (c Config) Names() []string { return slices.Sorted(maps.Keys(c.Profiles)) }

// Path is where the file is: $HAFT_CONFIG, or haft/config.yaml in the directory that the system has
// for configurations. It is "" if there is no such directory.
func Path(getenv func(string) string) string {
	if path := getenv("HAFT_CONFIG"); path != "" {
		return path
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "haft", "config.yaml")
}

// Load reads the file. One that does not exist has no profiles.
func Load(path string) (Config, error) {
	none := Config{Profiles: map[string]map[string]string{}}
	info, err := os.Stat(path)
	if path == "" || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("read the configuration: %w", err)
	}
	if err := ownerOnly(info); err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return none, fmt.Errorf("others can write to %s, and a server in it gets your arguments: chmod go-w %s",
			path, path)
	}
	raw, err := toolfile.ReadBounded(path, maxFile)
	if err != nil {
		return none, fmt.Errorf("read the configuration: %w", err)
	}
	c := none
	if err := yaml.UnmarshalWithOptions(raw, &c, yaml.DisallowUnknownField()); err != nil {
		return none, fmt.Errorf("%s is not what haft config writes: %s", path, firstLine(err))
	}
	if c.Profiles == nil {
		c.Profiles = none.Profiles
	}
	return c, c.check(path)
}

// firstLine is what is wrong, without the lines of the file, which may have values.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// check checks names and settings.
func (c Config) check(path string) error {
	if len(c.Profiles) > maxProfiles {
		return fmt.Errorf("%s has more than %d profiles", path, maxProfiles)
	}
	for name, settings := range c.Profiles {
		if err := CheckName(name); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for key := range settings {
			if err := checkSetting(key); err != nil {
				return fmt.Errorf("%s: profile %s: %w", path, name, err)
			}
		}
	}
	return nil
}

// CheckName refuses what is no name of a profile.
func CheckName(name string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`).MatchString(name) {
		return errors.New("the name of a profile is up to 64 letters, digits, dots, dashes and underscores")
	}
	return nil
}

func checkSetting(key string) error {
	if known := Settings(); known[key] == "" {
		return fmt.Errorf("there is no setting %q; there are %s", key,
			strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return nil
}

// Profile returns the settings of the profile with that name, or if that is "" of the one in use,
// which may be none.
func (c Config) Profile(name string) (map[string]string, error) {
	if name == "" {
		if c.Use == "" {
			return nil, nil
		}
		name = c.Use
	}
	settings, ok := c.Profiles[name]
	if !ok {
		return nil, fmt.Errorf("there is no profile %q; add it with: haft config set %s server=URL", name, name)
	}
	return settings, nil
}

// Set changes settings of a profile, which is made if it is not there. They are KEY=VALUE; one without
// a value is removed.
func (c *Config) Set(name string, pairs []string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	settings := maps.Clone(c.Profiles[name])
	if settings == nil {
		settings = map[string]string{}
	}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("a setting is KEY=VALUE, and %q is not", key)
		}
		if err := checkSetting(key); err != nil {
			return err
		}
		if strings.HasPrefix(value, "haft_") {
			return fmt.Errorf("%s looks like a key itself: write it to a file that only you can read, and set key-file",
				key)
		}
		if value == "" {
			delete(settings, key)
			continue
		}
		settings[key] = value
	}
	c.Profiles[name] = settings
	return c.check("the configuration")
}

// Save writes the file, for its owner only, in one step.
func (c Config) Save(path string) error {
	if path == "" {
		return errors.New("this system has no directory for configurations: name a file in $HAFT_CONFIG")
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".config-*") // for its owner only
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write the configuration: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
