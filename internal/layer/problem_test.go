package layer_test

import (
	"strings"
	"testing"

	"haft"
	"haft/internal/layer"
)

func TestDiagnose(t *testing.T) {
	for _, tt := range []struct {
		name, text         string
		kind               layer.ProblemKind
		requirement, other string
	}{
		{"pip typo", "ERROR: Could not find a version that satisfies the requirement nmupy (from versions: " +
			"none)\nERROR: No matching distribution found for nmupy\n", layer.ProblemNotFound, "nmupy", ""},
		{"pip version", "ERROR: Could not find a version that satisfies the requirement numpy==99 (from versions: " +
			"1.0, 2.0)\nERROR: No matching distribution found for numpy==99", layer.ProblemVersion, "numpy==99", ""},
		{"pip without network", "WARNING: Retrying (Retry(total=4)) after connection broken by " +
			"'NewConnectionError('x')': /simple/a/\nERROR: Could not find a version that satisfies the requirement " +
			"a (from versions: none)", layer.ProblemNetwork, "", ""},
		{"pip conflict", "ERROR: Cannot install a==1 and b==1 because these package versions have conflicting " +
			"dependencies.\n\nThe conflict is caused by:\n    a 1 depends on x<2\n    b 1 depends on x>=2\n\nERROR: " +
			"ResolutionImpossible: for help visit", layer.ProblemConflict, "a 1 depends on x<2", "b 1 depends on x>=2"},
		{"pip without a wheel", "ERROR: Cannot install sumy==0.10 and sumy==0.11 because these package versions have " +
			"conflicting dependencies.\n\nThe conflict is caused by:\n    sumy 0.11 depends on docopt<0.7 and " +
			">=0.6.1\n    sumy 0.10 depends on docopt>=0.6.1\n\nERROR: ResolutionImpossible", layer.ProblemNotFound,
			"docopt<0.7 and >=0.6.1", ""},
		{"pip hash", "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated " +
			"the package versions, please update the hashes. Otherwise, examine the package contents carefully; " +
			"someone may have tampered with them.\n    six==1.0 from https://x/six.whl (from -r lock.txt (line " +
			"1)):\n        Expected sha256 00\n", layer.ProblemHash, "six==1.0", ""},
		{"pip build", "  error: subprocess-exited-with-error\n  ERROR: Failed building wheel for evil\nERROR: Could " +
			"not build wheels for evil, which is required", layer.ProblemBuild, "evil", ""},
		{"uv without a wheel", "Because only docopt<=0.6.2 is available and docopt==0.6.2 has no usable " +
			"wheels, we can conclude that sumy cannot be used.", layer.ProblemBuild, "docopt", ""},
		{"pip missing", "/usr/bin/python3: No module named pip", layer.ProblemTool, "", ""},
		{"pip certificate", "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate " +
			"verify failed'))", layer.ProblemTrust, "", ""},
		{"disk", "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
			layer.ProblemDisk, "", ""},
		{"uv typo", "  × No solution found when resolving dependencies:\n  ╰─▶ Because nmupy was not found in the " +
			"package registry and you require nmupy, we can conclude that your requirements are unsatisfiable.",
			layer.ProblemNotFound, "nmupy", ""},
		{"uv version", "  × No solution found when resolving dependencies:\n  ╰─▶ Because there is no version of " +
			"numpy==99 and you require numpy==99, we can conclude", layer.ProblemVersion, "numpy==99", ""},
		{"uv conflict", "  × No solution found when resolving dependencies:\n  ╰─▶ Because hafta==1.0 depends on " +
			"hafttiny<2 and haftb==1.0 depends on hafttiny>=2, we can conclude that hafta==1.0 and haftb==1.0 are " +
			"incompatible.", layer.ProblemConflict, "hafta==1.0 depends on hafttiny<2",
			"haftb==1.0 depends on hafttiny>=2"},
		{"uv contradiction", "error: No solution found when resolving dependencies\n  cause: you require six==1.15 " +
			"and six==1.16, which are incompatible\n", layer.ProblemConflict, "six==1.15", "six==1.16"},
		{"uv contradiction of two lines", "error: No solution found when resolving dependencies\n  cause: Because " +
			"you require six==1.15 and six==1.16, we can conclude that your requirements are unsatisfiable.",
			layer.ProblemConflict, "six==1.15", "six==1.16"},
		{"uv hash", "error: Failed to read `six==1.0`\n  Caused by: Hash mismatch for `six==1.0`\n", layer.ProblemHash,
			"six==1.0", ""},
		{"npm typo", "npm error code E404\nnpm error 404 Not Found - GET https://r/lodahs - Not found\nnpm error " +
			"404\nnpm error 404  'lodahs@*' is not in this registry.\n", layer.ProblemNotFound, "lodahs@*", ""},
		{"old npm typo", "npm ERR! code E404\nnpm ERR! 404  'lodahs@*' is not in this registry.\n",
			layer.ProblemNotFound, "lodahs@*", ""},
		{"npm version", "npm error code ETARGET\nnpm error notarget No matching version found for lodash@99.\nnpm " +
			"error notarget In most cases", layer.ProblemVersion, "lodash@99", ""},
		{"npm contradiction", "npm error code ETARGET\nnpm error notarget No matching version found for debug@1 >=2 " +
			"|| ^3 >=4.\nnpm error notarget In most cases", layer.ProblemVersion, "debug@1 >=2 || ^3 >=4", ""},
		{"npm conflict", "npm error code ERESOLVE\nnpm error ERESOLVE unable to resolve dependency tree\nnpm " +
			"error\nnpm error Found: react@18.0.0\nnpm error Could not resolve dependency:\nnpm error peer " +
			"react@\"^17\" from old@1.0.0", layer.ProblemConflict, "react@18.0.0", `peer react@"^17" from old@1.0.0`},
		{"npm hash", "npm error code EINTEGRITY\nnpm error sha512-x integrity checksum failed when using sha512",
			layer.ProblemHash, "", ""},
		{"npm network", "npm error code ECONNREFUSED\nnpm error syscall connect", layer.ProblemNetwork, "", ""},
		{"npm access", "npm error code E401\nnpm error Incorrect or missing password.", layer.ProblemAccess, "", ""},
		{"outlet refuses", "OSError('Tunnel connection failed: 403 Forbidden')", layer.ProblemAccess, "", ""},
		{"nothing known", "boom", layer.ProblemOther, "", ""},
	} {
		got := layer.Diagnose(tt.text)
		if got.Kind != tt.kind || got.Requirement != tt.requirement || got.Other != tt.other {
			t.Errorf("%s: got %+v", tt.name, got)
		}
	}
}

func TestNPMLock(t *testing.T) {
	good := `{"lockfileVersion":3,"packages":{"":{"dependencies":{"a":"^1"}},"node_modules/a":{"version":"1.0.0","integrity":"sha512-AAAA"},"node_modules/a/node_modules/@s/b":{"version":"1.0.0","inBundle":true}}}`
	out, deps, err := layer.NPMLock([]byte(good))
	if err != nil || deps["a"] != "^1" {
		t.Fatal(deps, err)
	}
	again, _, err := layer.NPMLock(out)
	if err != nil || string(again) != string(out) {
		t.Errorf("%s becomes %s, %v", out, again, err)
	}
	for in, says := range map[string]string{
		`{`:                                   "version 2",
		`{"lockfileVersion":1,"packages":{}}`: "version 2",
		`{"lockfileVersion":3,"packages":{"../x":{"integrity":"sha512-AAAA"}}}`:                                                    "not in node_modules",
		`{"lockfileVersion":3,"packages":{"node_modules/../x":{"integrity":"sha512-AAAA"}}}`:                                       "not in node_modules",
		`{"lockfileVersion":3,"packages":{"node_modules/a":{"link":true,"resolved":"../x"}}}`:                                      "is a link",
		`{"lockfileVersion":3,"packages":{"node_modules/a":{"version":"1"}}}`:                                                      "has no hash",
		`{"lockfileVersion":3,"packages":{"node_modules/a":{"integrity":"sha1-AAAA"}}}`:                                            "has no hash",
		`{"lockfileVersion":3,"packages":{"node_modules/a":{"integrity":"sha512-AAAA","resolved":"git+ssh://git@example.com/x"}}}`: "registry",
		`{"lockfileVersion":3,"packages":{"node_modules/a":{"integrity":"sha512-AAAA","resolved":"file:../x"}}}`:                   "registry",
	} {
		if _, _, err := layer.NPMLock([]byte(in)); haft.CodeOf(err) != haft.CodeInvalid ||
			!strings.Contains(haft.MessageOf(err), says) {
			t.Errorf("%s: %v, want %q", in, err, says)
		}
	}
}

func TestLockOfReport(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	out, err := layer.LockOfReport(
		[]byte(
			`{"install":[{"metadata":{"name":"B_x","version":"1.0"},"download_info":{"archive_info":{"hashes":{"sha256":"` + sum + `"}}}},` +
				`{"metadata":{"name":"a","version":"2"},"download_info":{"archive_info":{"hash":"sha256=` + sum +
				`"}}}]}`))
	if want := "a==2 \\\n    --hash=sha256:" + sum + "\nb-x==1.0 \\\n    --hash=sha256:" + sum + "\n"; err != nil ||
		string(out) != want {
		t.Errorf("got %s, %v", out, err)
	}
	for _, in := range []string{
		`{"install":[{"metadata":{"name":"a","version":"1"}}]}`,
		`{"install":[{"is_direct":true,"metadata":{"name":"a","version":"1"}}]}`,
		`{"install":[{"metadata":{"name":"a --index-url=x","version":"1"}}]}`,
		`[]`,
	} {
		if out, err := layer.LockOfReport([]byte(in)); err == nil {
			t.Errorf("%s gives %s", in, out)
		}
	}
}

func FuzzInstallerWords(f *testing.F) {
	f.Add("ERROR: Could not find a version that satisfies the requirement a (from versions: none)",
		[]byte(`{"install":[]}`))
	f.Fuzz(func(t *testing.T, text string, doc []byte) {
		if p := layer.Diagnose(text); p.Kind == "" || len(p.Requirement) > 210 || len(p.Other) > 210 {
			t.Errorf("%q: %+v", text, p)
		}
		_, _ = layer.LockOfReport(doc) // does not panic
		if out, _, err := layer.NPMLock(doc); err == nil {
			if again, _, err := layer.NPMLock(out); err != nil || string(again) != string(out) {
				t.Errorf("%s becomes %s, %v", out, again, err)
			}
		}
	})
}
