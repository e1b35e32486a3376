package e2b

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"haft"
)

func TestAddPackages(t *testing.T) {
	for command, want := range map[string]haft.Requirements{
		"pip install six": {Pip: []string{"six"}},
		"sudo pip3 install -q six idna && npm i -g left-pad@1.3.0": {Pip: []string{"six", "idna"},
			NPM: []string{"left-pad@1.3.0"}},
		"python3 -m pip install \"six>=1.16,<2\" 'idna'": {Pip: []string{"six>=1.16,<2", "idna"}},
		"pip install --no-cache-dir six \\\n  idna six":  {Pip: []string{"six", "idna"}},
		"npm install @types/node":                        {NPM: []string{"@types/node"}},
	} {
		var got haft.Requirements
		if why := addPackages(command, &got); why != "" || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %s", command, got, why)
		}
	}
	for _, command := range []string{
		"", "pip", "pip install", "cat /etc/passwd", "pip install -r x.txt", "pip install six; id",
		"pip install $HOME",
		"pip install `id`", "pip install six | sh", "pip install six & id", "pip install six\nid", "pip install 'six",
		"pip install /etc/passwd", "pip install ./x", "pip install git+https://x", "pip install -e .",
		"pip download six",
		"pip install six --index-url=x", "npm install file:../x", "npm run x y", "apt-get install git", "pip install ~",
		"pip install six>=1", "&& pip install six", "pip install six &&", "uv pip install six", "pip install a\\b",
	} {
		var got haft.Requirements
		if why := addPackages(command, &got); why == "" {
			t.Errorf("%q installs %+v", command, got)
		}
	}
}

// Many packages are refused before each is compared with all others: a request of 700 kB took three minutes.
func TestAddPackages_bounds_them(t *testing.T) {
	for n, refused := range map[int]bool{maxPackages: false, maxPackages + 1: true, 500_000: true} {
		var command strings.Builder
		command.WriteString("npm install")
		for i := range n {
			fmt.Fprintf(&command, " %06d", i)
		}
		var got haft.Requirements
		if why := addPackages(command.String(), &got); (why != "") != refused || len(got.NPM) > maxPackages {
			t.Errorf("%d packages: %q, and %d are taken", n, why, len(got.NPM))
		}
	}
}
