package app_test

import (
	"bytes"
	"testing"

	"haft"
	"haft/app"
	"haft/internal/secret"
)

// must fails the test.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What the configuration says of the master key comes before the environment, and a file
// before a key.
func TestServiceConfig_master_key(t *testing.T) {
	t.Setenv("HAFT_MASTER_KEY", "of the environment")
	t.Setenv("HAFT_MASTER_KEY_COMMAND", "echo")
	for _, tt := range []struct {
		cfg            app.ServiceConfig
		env, key, file string
	}{
		{app.ServiceConfig{}, "", "of the environment", ""},
		{app.ServiceConfig{}, "env.key", "", "env.key"},
		{app.ServiceConfig{MasterKeyFile: "own.key"}, "env.key", "", "own.key"},
		{app.ServiceConfig{MasterKey: []byte("own")}, "", "own", ""},
		{app.ServiceConfig{MasterKey: []byte("own")}, "env.key", "own", "env.key"},
	} {
		t.Setenv("HAFT_MASTER_KEY_FILE", tt.env)
		got := app.MasterKey(tt.cfg)
		if !bytes.Equal(got.MasterKey, []byte(tt.key)) || got.MasterKeyFile != tt.file ||
			got.MasterKeyCommand != "echo" {
			t.Errorf("the key is %q, the file %q, the command %q; want %q and %q", got.MasterKey, got.MasterKeyFile,
				got.MasterKeyCommand, tt.key, tt.file)
		}
	}
}

// Calls are given no secret of an organisation that was erased, also not from memory.
func TestService_forgets_erased_secrets(t *testing.T) {
	s, err := app.OpenService(t.Context(), app.ServiceConfig{Config: app.Config{Sandbox: "process"}, Data: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	p := haft.Principal{Org: "acme", User: "root", Roles: []string{haft.RoleAdmin}}
	must(t, s.PutSecret(t.Context(), p, "", "TOKEN", secret.New("hunter2hunter2")))
	for _, want := range []int{1, 0} {
		got, err := s.StoredSecrets(t.Context(), "acme")
		must(t, err)
		if len(got.Org) != want {
			t.Errorf("calls are given %d secrets, want %d", len(got.Org), want)
		}
		_, err = s.Erase(t.Context(), p, haft.Subject{})
		must(t, err)
	}
}
