package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
)

// The place where a command works is one setting: a key of a profile goes to no other server, and data that
// is named elsewhere is not mixed with a database or server of a profile.
func TestProfile_setFromConfig_takes_the_place_whole_or_not(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	text := "use: prod\nprofiles:\n  prod: {server: 'https://prod.example', key-file: /prod.key, org: acme}\n" +
		"  db: {database: 'postgres://prod', org: acme}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args                      []string
		env                       map[string]string
		server, keyFile, database string
	}{
		"the profile in use": {server: "https://prod.example", keyFile: "/prod.key"},
		"another server":     {args: []string{"--server=https://other.example"}, server: "https://other.example"},
		"another server in the environment": {env: map[string]string{"HAFT_SERVER": "https://other.example"},
			server: "https://other.example"},
		"a key in the environment": {env: map[string]string{"HAFT_KEY": "k"}},
		"a named profile and a key": {args: []string{"--profile=prod"}, env: map[string]string{"HAFT_KEY": "k"},
			server: "https://prod.example", keyFile: "/prod.key"},
		"data":                       {args: []string{"--data=x", "--profile=db"}},
		"data in the environment":    {args: []string{"--profile=db"}, env: map[string]string{"HAFT_DATA": "x"}},
		"a database of the profile":  {args: []string{"--profile=db"}, database: "postgres://prod"},
		"a database on the way here": {args: []string{"--database=postgres://mine"}, database: "postgres://mine"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, key := range []string{"HAFT_SERVER", "HAFT_KEY", "HAFT_KEY_FILE", "HAFT_DATA", "HAFT_DATABASE",
				"HAFT_ORG"} {
				t.Setenv(key, tt.env[key])
			}
			t.Setenv("HAFT_CONFIG", config)
			p := &Profile{}
			f := pflag.NewFlagSet("x", pflag.ContinueOnError)
			Declare(f, p.Flags())
			if err := f.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			if err := setFromEnv(f, profileEnv); err != nil {
				t.Fatal(err)
			}
			if err := p.setFromConfig(f); err != nil {
				t.Fatal(err)
			}
			if p.server != tt.server || p.keyFile != tt.keyFile || p.Database != tt.database || p.Org != "acme" {
				t.Errorf("server %q, key file %q, database %q, organisation %q", p.server, p.keyFile, p.Database, p.Org)
			}
		})
	}
}

func TestPrintNames_refuses_what_is_no_name(t *testing.T) {
	p := &Profile{Streams: Streams{Out: os.Stderr}, JSON: true, as: formatName}
	for _, name := range []string{"a\x1b[2Jb", "a\nb"} {
		if err := p.Print(map[string]string{"name": name}, nil); err == nil {
			t.Errorf("%q is printed", name)
		}
	}
}
