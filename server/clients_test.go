package server_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The tests of the clients need Node.js and packages from an index. These need neither, so that make check says that a
// field is missing.

// fieldsOf returns the names of the properties of each object in the pinned document.
func fieldsOf(t *testing.T) map[string][]string {
	t.Helper()
	raw, err := os.ReadFile("testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	fields := map[string][]string{}
	for name, schema := range doc.Components.Schemas {
		for field := range schema.Properties {
			fields[name] = append(fields[name], field)
		}
	}
	return fields
}

func TestClients_have_the_fields_of_the_document(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file, class, field string
		all                      bool // the client has every object of the document but pages and errors
		renamed                  map[string]string
		fix                      string
	}{
		{"typescript", "../clients/typescript/src/schemas.ts", `(?ms)^export interface (\w+)()[^\n]* \{\n(.*?)^\}`,
			`(?m)^  "?([$\w]+)"?\??:`, true, map[string]string{"Call": "CallOfRecord", "CallBody": "BatchCall", "Event": "CallEvent",
				"Info": "SecretInfo", "Output": "OutputSettings", "Record": "CallRecord", "Sandbox": "SandboxUsed"},
			"(cd clients/typescript && npm run schemas)"},
		{"python", "../clients/python/src/haft/_models.py", `(?ms)^class (\w+)(?:\((\w*).*?\))?:\n(.*?)(?:^@|\z)`,
			`(?m)^    (\w+): `, false, map[string]string{"Info": "Secret"},
			"add it to the class"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(c.file)
			if err != nil {
				t.Fatal(err)
			}
			types := map[string]map[string]bool{}
			for _, m := range regexp.MustCompile(c.class).FindAllStringSubmatch(string(source), -1) {
				types[m[1]] = maps.Clone(types[m[2]]) // what it has of its base class
				if types[m[1]] == nil {
					types[m[1]] = map[string]bool{}
				}
				for _, f := range regexp.MustCompile(c.field).FindAllStringSubmatch(m[3], -1) {
					types[m[1]][strings.TrimSuffix(f[1], "_")] = true
				}
			}
			if len(types) < 50 {
				t.Fatalf("only %d types were found in %s", len(types), c.file)
			}
			pages := regexp.MustCompile("^Page|^EntriesBody$|^Problem$")
			for object, fields := range fieldsOf(t) {
				name := cmp.Or(c.renamed[object], object)
				if types[name] == nil {
					if c.all && !pages.MatchString(object) {
						t.Errorf("%s lacks the type %s: %s", c.file, name, c.fix)
					}
					continue
				}
				for _, field := range fields {
					// Clients write these two, and do not read them.
					if !types[name][field] && field != "if_revision" && field != "$schema" {
						t.Errorf("%s: %s lacks the field %s: %s", c.file, name, field, c.fix)
					}
				}
			}
		})
	}
}
