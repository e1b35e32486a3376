package app_test

import (
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/internal/secret"
)

func TestCredentials_are_configured_by_the_environment(t *testing.T) {
	if c, err := (app.CredentialsConfig{}).FromEnv(); err != nil || c.URL != "" {
		t.Errorf("a silent environment gives %v, %v", c, err)
	}
	for name, text := range map[string]string{
		"URL": "https://host/credentials", "KEY": "bearer-key", "SIGNING_KEY": "signing-key", "TIMEOUT": "3s",
		"TTL": "0s", "ALLOW": "10.0.0.0/8, fd00::/8,",
	} {
		t.Setenv("HAFT_CREDENTIALS_"+name, text)
	}
	c, err := (app.CredentialsConfig{}).FromEnv()
	if err != nil || c.URL != "https://host/credentials" || !c.Key.Equal(secret.New("bearer-key")) ||
		!c.Signing.Equal(secret.New("signing-key")) ||
		c.Timeout != 3*time.Second || c.TTL >= 0 || len(c.Allow) != 2 || c.Insecure {
		t.Errorf("the environment gives %+v, %v", c, err)
	}
	given, err := (app.CredentialsConfig{URL: "https://other/"}).FromEnv()
	if err != nil || given.URL != "https://other/" || !given.Key.IsZero() {
		t.Errorf("what is given is mixed with the environment: %+v, %v", given, err)
	}
	for name, bad := range map[string]string{"TIMEOUT": "soon", "TTL": "-1s", "ALLOW": "10.0.0.1"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HAFT_CREDENTIALS_"+name, bad)
			if _, err := (app.CredentialsConfig{}).FromEnv(); haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("HAFT_CREDENTIALS_%s=%s: %v", name, bad, err)
			}
		})
	}
}
