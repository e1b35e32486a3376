package local_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local"
)

// Less than namespaces has to be allowed: nothing runs before, by whichever way, and
// whoever asks hears what is missing and what to do.
func TestReduced_has_to_be_allowed(t *testing.T) {
	for name, tt := range map[string]struct {
		forbid haft.Control
		lacks  string // "" if the level stays
	}{
		"no user namespace":  {haft.ControlUserNS, "user_ns"},
		"no mount namespace": {haft.ControlMountNS, "root"},
		"no filter":          {haft.ControlSeccomp, "seccomp"},
		"no Landlock":        {haft.ControlLandlock, ""},
		"no time namespace":  {haft.ControlTimeNS, ""},
	} {
		for _, allowed := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", allowed"}[allowed], func(t *testing.T) {
				if tt.lacks == "" {
					p := open(t, local.Config{})
					if have, err := p.Isolation(t.Context()); err != nil || have.Level == haft.LevelReduced {
						t.Skipf("this machine gives %q: %v", have.Level, err)
					}
				}
				p, err := local.Open(context.WithoutCancel(t.Context()),
					local.Config{Dir: stateDir(t), Forbid: []haft.Control{tt.forbid}, AllowReduced: allowed})
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				run := func(need haft.Level) error {
					began := time.Now()
					exit, err := p.Run(t.Context(),
						sandbox.Spec{Argv: []string{"/bin/true"}, Mounts: system(), Need: sandbox.Need{Level: need}})
					if err == nil && exit.Code != 0 {
						t.Errorf("it ended with %+v", exit)
					}
					if d := time.Since(began); d > 15*time.Second {
						t.Errorf("it took %v to say so", d)
					}
					return err
				}
				template := func() error {
					tpl, err := p.Template(t.Context(), sandbox.Spec{Argv: []string{"/bin/cat"}, Mounts: system()}, "")
					if err == nil {
						return tpl.Close()
					}
					return err
				}
				refused := tt.lacks != "" && !allowed
				for way, err := range map[string]error{"first": run(""), "second": run(""),
					"with a need": run(haft.LevelReduced)} {
					if (err != nil) != refused {
						t.Errorf("%s: %v", way, err)
					}
					if !refused {
						continue
					}
					text := haft.MessageOf(err)
					if haft.CodeOf(err) != haft.CodeDenied {
						t.Errorf("%s: %v", way, err)
					}
					for _, want := range []string{"no ", tt.lacks, "haft doctor", "docs/deploy.md", "--allow-reduced",
						"another sandbox"} {
						if !strings.Contains(text, want) {
							t.Errorf("%s does not say %q: %s", way, want, text)
						}
					}
				}
				if err := template(); refused && !strings.Contains(haft.MessageOf(err), "--allow-reduced") {
					t.Errorf("a template: %v", err)
				}
				have, err := p.Isolation(t.Context())
				if err != nil || (have.Level == haft.LevelReduced) != (tt.lacks != "") {
					t.Errorf("Isolation = %v, %v", have.Level, err)
				}
			})
		}
	}
}
