package userconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConfig_is_kept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "config.yaml")
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Set("work", []string{"server=https://haft.example.com", "key-file=/k", "org=acme"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Set("work", []string{"org="}); err != nil {
		t.Fatal(err)
	}
	c.Use = "work"
	if err := c.Save(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := got.Profile("")
	want := map[string]string{"server": "https://haft.example.com", "key-file": "/k"}
	if diff := cmp.Diff(want, settings); diff != "" || err != nil {
		t.Errorf("the profile in use is %s, %v", diff, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".config-*")); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

func TestConfig_refuses(t *testing.T) {
	c := Config{Profiles: map[string]map[string]string{}}
	for name, pairs := range map[string][]string{
		"../up": {"org=a"}, "": {"org=a"}, "a": {"frob=1"}, "b": {"org"}, "c": {"key-file=haft_abc_def"},
	} {
		if err := c.Set(name, pairs); err == nil {
			t.Errorf("Set(%q, %q) is taken", name, pairs)
		}
	}
	if len(c.Profiles) != 0 {
		t.Errorf("what was refused is kept: %v", c.Profiles)
	}
	if _, err := c.Profile("other"); err == nil || !strings.Contains(err.Error(), "haft config set other") {
		t.Errorf("a profile that is not there gives %v", err)
	}
}

func TestLoad_refuses(t *testing.T) {
	for name, text := range map[string]string{
		"unknown field":   "profiles: {}\nfrob: 1\n",
		"unknown setting": "profiles: {a: {password: hunter22}}\n",
		"not YAML":        "{{{ hunter22\n",
		"other types":     "profiles: [hunter22]\n",
	} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		if err == nil {
			t.Errorf("%s is taken", name)
		} else if strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: the error repeats a value: %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("profiles: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("a file that others can write gives %v", err)
	}
}
