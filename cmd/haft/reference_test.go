package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"haft"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/server"
)

// madeTable finds a table that is made from the code, by its name.
var madeTable = regexp.MustCompile(`(?s)(<!-- made: ([a-z ]+) -->\n)(.*?)(<!-- end -->\n)`)

// TestReference compares the tables of the reference with the code. With -update it writes them.
func TestReference(t *testing.T) {
	makers := map[string]func(*testing.T) string{"commands": commandTable, "exit codes": exitTable,
		"codes": codeTable, "statuses": statusTable, "kinds": kindTable, "events": eventTable, "limits": limitTable,
		"routes": routeTable, "flags": profileTable}
	made := 0
	for _, name := range []string{"cli", "reference", "http"} {
		page := "../../docs/" + name + ".md"
		text, err := os.ReadFile(page) //nolint:gosec // a page of the repository
		if err != nil {
			t.Fatal(err)
		}
		want := madeTable.ReplaceAllStringFunc(string(text), func(region string) string {
			m := madeTable.FindStringSubmatch(region)
			if makers[m[2]] == nil {
				t.Fatalf("%s has the table %q, which nothing makes", page, m[2])
			}
			made++
			return m[1] + "\n" + makers[m[2]](t) + "\n" + m[4]
		})
		if want != string(text) && *update {
			err = os.WriteFile(page, []byte(want), 0o644) //nolint:gosec // a page of the repository
		}
		if err != nil {
			t.Fatal(err)
		}
		if want != string(text) && !*update {
			t.Errorf("%s does not say what the code does: go test ./cmd/haft -run TestReference -update", page)
		}
	}
	if made != len(makers) {
		t.Errorf("%d tables are in the pages, and %d are made", made, len(makers))
	}
}

// commandTable lists every command with its flags.
func commandTable(*testing.T) string {
	var b strings.Builder
	walk(newRoot(cli.Streams{}, ""), func(c *cobra.Command) {
		for up := c; up.HasParent(); up = up.Parent() {
			if up.Hidden || up.Name() == "help" || up.Name() == "completion" {
				return
			}
		}
		if !c.HasParent() {
			return
		}
		level := "##"
		if c.Parent().HasParent() {
			level = "###"
		}
		fmt.Fprintf(&b, "%s %s\n\n", level, c.CommandPath())
		_, arguments, _ := strings.Cut(c.Use, " ")
		fmt.Fprintf(&b, "%s.", strings.TrimSuffix(escape(c.Short), "."))
		if arguments != "" {
			fmt.Fprintf(&b, " Arguments: `%s`.", arguments)
		}
		b.WriteString("\n\n")
		var own pflag.FlagSet
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && f.Name != "print" && profileFlags().Lookup(f.Name) == nil {
				own.AddFlag(f)
			}
		})
		b.WriteString(flagTable(&own))
	})
	return strings.TrimSpace(b.String()) + "\n"
}

// profileTable lists the flags that commands share.
func profileTable(*testing.T) string { return strings.TrimSpace(flagTable(profileFlags())) + "\n" }

// profileFlags returns the flags that commands share.
func profileFlags() *pflag.FlagSet {
	p := &cli.Profile{}
	return cli.Command{Use: "x"}.Build(p).PersistentFlags()
}

// flagTable lists flags with their defaults.
func flagTable(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		kind, usage := pflag.UnquoteUsage(f)
		if b.Len() == 0 {
			b.WriteString("| flag | what it is |\n|---|---|\n")
		}
		name := strings.TrimSpace("--" + f.Name + " " + kind)
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		none := slices.Contains([]string{"", "0", "0s", "[]", "false"}, f.DefValue) ||
			f.Value.Type() == "size" && (strings.Contains(usage, "if it is not given") || strings.HasSuffix(usage, ")"))
		if !none && f.Value.Type() != "bool" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(name, "|", "\\|"), escape(usage))
	})
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

// escape makes text what a table can have.
func escape(text string) string {
	return strings.NewReplacer("|", "\\|", "<", "&lt;", "*", "\\*", "\n", " ").Replace(text)
}

// exitTable lists the exit codes with the statuses and codes that lead to them.
func exitTable(t *testing.T) string {
	causes := map[int][]string{exit.OK: nil, exit.Tool: nil, exit.Usage: {"a wrong command line"}, exit.Validation: nil,
		exit.Denied: nil, exit.Timeout: nil, exit.Limit: nil, exit.Cancelled: nil, exit.Rate: nil, exit.Unknown: nil,
		exit.Internal: nil}
	for _, s := range haft.Statuses() {
		causes[exit.OfStatus[s]] = append(causes[exit.OfStatus[s]], "status `"+string(s)+"`")
	}
	for _, c := range haft.Codes() {
		causes[exit.OfCode[c]] = append(causes[exit.OfCode[c]], "error `"+string(c)+"`")
	}
	rows := "| exit code | when |\n|---|---|\n"
	for _, code := range slices.Sorted(maps.Keys(causes)) {
		if len(causes[code]) == 0 {
			t.Errorf("nothing leads to exit code %d", code)
		}
		rows += fmt.Sprintf("| %d | %s |\n", code, strings.Join(causes[code], ", "))
	}
	return rows
}

// codeTable lists the codes of errors.
func codeTable(t *testing.T) string {
	said := comments(t, "error.go")
	rows := "| code | HTTP | exit code | what it means |\n|---|---|---|---|\n"
	for _, c := range haft.Codes() {
		_, text, _ := strings.Cut(said[string(c)], ": ")
		rows += fmt.Sprintf("| `%s` | %d %s | %d | %s |\n", c, server.StatusOf(c), http.StatusText(server.StatusOf(c)),
			exit.OfCode[c], strings.TrimSuffix(text, "."))
	}
	return rows
}

// statusTable lists the statuses of results.
func statusTable(t *testing.T) string {
	said := comments(t, "result.go")
	rows := "| status | exit code | final | what it means |\n|---|---|---|---|\n"
	for _, s := range haft.Statuses() {
		final := "yes"
		if !s.Final() {
			final = "no"
		}
		rows += fmt.Sprintf("| `%s` | %d | %s | %s |\n", s, exit.OfStatus[s], final, said[string(s)])
	}
	return rows
}

// kindTable lists the kinds of failure.
func kindTable(t *testing.T) string {
	said := comments(t, "result.go")
	rows := "| kind | what went wrong |\n|---|---|\n"
	for _, k := range haft.FailureKinds() {
		rows += fmt.Sprintf("| `%s` | %s |\n", k, said["Fail:"+string(k)])
	}
	return rows
}

// eventTable lists the types of events.
func eventTable(t *testing.T) string {
	said := map[haft.EventType]string{
		haft.EventQueued:    "the call is acknowledged and has not begun",
		haft.EventExecuting: "a run begins; `data` has the digest of the version and the arguments",
		haft.EventRetry:     "a run has failed and another one follows",
		haft.EventProgress:  "what the tool says of its progress, or an item that it yields",
		haft.EventOutput:    "a piece of stdout or stderr",
		haft.EventCompleted: "the call has ended; `data` has the status, the failure, times, usage and the " +
			"beginning of the value",
		haft.EventApproval: "a person has to agree",
		haft.EventDecided:  "a person has agreed or refused",
	}
	rows := "| type | what happened |\n|---|---|\n"
	for _, e := range haft.EventTypes() {
		if said[e] == "" {
			t.Errorf("nothing is said about the event %s", e)
		}
		rows += fmt.Sprintf("| `%s` | %s |\n", e, said[e])
	}
	return rows
}

// limitTable lists the limits of a run with their defaults and ceilings.
func limitTable(t *testing.T) string {
	said := comments(t, "limits.go")
	def, ceiling := reflect.ValueOf(haft.DefaultLimits()), reflect.ValueOf(haft.LimitCeilings())
	rows := "| limit | bounds | default | at most |\n|---|---|---|---|\n"
	for i := range def.NumField() {
		f := def.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		rows += fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, said[f.Name], amount(name, def.Field(i)),
			amount(name, ceiling.Field(i)))
	}
	return rows
}

// amount is a limit as people write it.
func amount(name string, v reflect.Value) string {
	switch {
	case v.Type() == reflect.TypeFor[haft.Millis]():
		return v.Interface().(haft.Millis).String()
	case !strings.HasSuffix(name, "_bytes"):
		return strconv.FormatInt(v.Int(), 10)
	case v.Int() >= 1<<30:
		return fmt.Sprintf("%d GiB", v.Int()>>30)
	}
	return fmt.Sprintf("%d MiB", v.Int()>>20)
}

// comments returns what a file of package haft says beside its constants, by their values, and beside the fields of
// its types, by their names. Kinds of failure share values with statuses, so "Fail:" stands before them.
func comments(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../../"+file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if len(n.Values) == 1 {
				if value, ok := n.Values[0].(*ast.BasicLit); ok {
					key, _ := strconv.Unquote(value.Value) //nolint:errcheck // the file is compiled
					if strings.HasPrefix(n.Names[0].Name, "Fail") {
						key = "Fail:" + key
					}
					said[key] = strings.TrimSpace(n.Doc.Text() + n.Comment.Text())
				}
			}
		case *ast.Field:
			if len(n.Names) == 1 && said[n.Names[0].Name] == "" { // of the first type with that field
				said[n.Names[0].Name] = strings.TrimSpace(n.Doc.Text() + n.Comment.Text())
			}
		}
		return true
	})
	return said
}

// routeTable lists the operations of the HTTP API.
func routeTable(t *testing.T) string {
	text, err := os.ReadFile("../../server/testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct{ Summary, Description string }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	rows := "| request | what it does |\n|---|---|\n"
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			if op, ok := doc.Paths[path][method]; ok {
				if op.Summary == "" {
					t.Errorf("%s %s has no summary", method, path)
				}
				rows += fmt.Sprintf("| `%s %s` | %s |\n", strings.ToUpper(method), path, escape(op.Summary))
			}
		}
	}
	return rows
}
