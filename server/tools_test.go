package server_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"haft"
	"haft/internal/modelapi"
	"haft/server"
)

func TestTools_conditions(t *testing.T) {
	w := setup(t, nil)
	made := w.must(201, admin, "POST", "/v1/tools", draft("f", ""))
	tag := made.header.Get("ETag")
	var tool server.Added
	made.into(t, &tool)
	if !tool.IsNew || tag == "" || made.header.Get("Location") != "/v1/tools/"+string(tool.ID) {
		t.Errorf("made %s %v", made.body, made.header)
	}
	digest := `"` + tool.Version.Digest + `"`
	second := strings.Replace(draft("f", ""), "A tool.", "Another.", 1)

	if a := w.must(304, user, "GET", "/v1/tools/f", "", "If-None-Match", `"x", W/`+tag); len(a.body) > 0 ||
		a.header.Get("ETag") != tag {
		t.Errorf("not modified: %q %v", a.body, a.header)
	}
	w.must(200, user, "GET", "/v1/tools/f", "", "If-None-Match", `"x"`)
	w.must(412, admin, "POST", "/v1/tools", second, "If-None-Match", "*")
	w.must(412, admin, "POST", "/v1/tools", second, "If-Match", `"sha256:0000"`)
	w.must(200, admin, "POST", "/v1/tools", draft("f", ""), "If-Match", tag) // nothing new
	w.must(201, admin, "POST", "/v1/tools", second, "If-Match", tag)
	w.must(412, admin, "PATCH", "/v1/tools/f", `{"version":1}`, "If-Match", tag)
	w.must(412, admin, "PATCH", "/v1/tools/f", `{"version":1}`, "If-Match", digest)
	now := w.must(200, user, "GET", "/v1/tools/f", "")

	// What is not part of the version changes the tag too, and not the digest.
	changed := w.must(200, admin, "PATCH", "/v1/tools/f", `{"tags":["a"]}`, "If-Match", now.header.Get("ETag"))
	if changed.header.Get("ETag") == now.header.Get("ETag") {
		t.Error("another tag list, the same ETag")
	}
	w.must(412, admin, "DELETE", "/v1/tools/f", "", "If-Match", now.header.Get("ETag"))

	var back haft.Tool
	w.must(200, admin, "PATCH", "/v1/tools/f", `{"version":1}`).into(t, &back)
	if back.Version.Number != 1 || back.Version.Digest != tool.Version.Digest {
		t.Errorf("rolled back to %d", back.Version.Number)
	}
	w.must(204, admin, "DELETE", "/v1/tools/f", "", "If-Match", digest)
	w.must(404, admin, "DELETE", "/v1/tools/f", "")
}

func TestTools_in_the_form_of_a_vendor(t *testing.T) {
	w := setup(t, nil)
	w.tool("a", "")
	w.tool("b", "")
	w.must(200, admin, "PATCH", "/v1/tools/b", `{"disabled":true}`)
	var got struct {
		Tools []struct {
			Name   string
			Schema json.RawMessage `json:"input_schema"`
			Strict bool
		}
	}
	w.must(200, user, "GET", "/v1/tools?format=anthropic&strict=true&disabled=true", "").into(t, &got)
	if len(got.Tools) != 1 || got.Tools[0].Name != "a" || got.Tools[0].Schema == nil || !got.Tools[0].Strict {
		t.Errorf("got %v", got)
	}
	w.must(422, user, "GET", "/v1/tools?format=llama", "")
	var messages []struct {
		Role string
		ID   string `json:"tool_call_id"`
	}
	w.must(200, user, "POST", "/v1/tool_calls?format=openai", `{"choices": [{"message": {"tool_calls": [
		{"id": "c1", "type": "function", "function": {"name": "a", "arguments": "{}"}}]}}]}`).into(t, &messages)
	if len(messages) != 1 || messages[0].Role != "tool" || messages[0].ID != "c1" {
		t.Errorf("got %+v", messages)
	}
	var whole modelapi.Answered
	w.must(200, user, "POST", "/v1/tool_calls?whole=true", `{"role": "assistant", "content": [
		{"type": "tool_use", "id": "c2", "name": "a", "input": {}}]}`).into(t, &whole)
	if whole.Form != "anthropic" || len(whole.Messages) != 1 || len(whole.Calls) != 1 || whole.Calls[0].ID != "c2" ||
		whole.Calls[0].Result.Call == "" {
		t.Errorf("got %+v", whole)
	}
	w.must(403, user, "POST", "/v1/tool_calls?agent=smith", `{}`)
}

func TestTools_by_name(t *testing.T) {
	w := setup(t, nil)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.tool(name, "")
	}
	w.must(200, admin, "PATCH", "/v1/tools/c", `{"disabled":true}`)
	for _, tt := range []struct{ name, query, want string }{
		{"in the order of the list, each once", "name=d,a,a", "a d"},
		{"what is not there is left out", "name=nothing,b", "b"},
		{"a disabled one is left out", "name=b,c", "b"},
		{"unless it is asked for", "name=b,c&disabled=true", "b c"},
		{"only disabled ones", "name=b,c&enabled=false", "c"},
		{"of a kind", "name=a&kind=bash", ""},
		{"with a tag", "name=a&tag=none", ""},
		{"page by page", "name=a,b,d&limit=2", "a b"},
		{"behind a name", "name=a,b,d&after=a", "b d"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got struct{ Data []haft.Tool }
			w.must(200, user, "GET", "/v1/tools?"+tt.query, "").into(t, &got)
			names := []string{}
			for _, tool := range got.Data {
				names = append(names, tool.Name)
			}
			if strings.Join(names, " ") != tt.want {
				t.Errorf("got %v, want %q", names, tt.want)
			}
		})
	}
	var id struct{ ID string }
	w.must(200, user, "GET", "/v1/tools/a", "").into(t, &id)
	if got := w.must(200, user, "GET", "/v1/tools?name="+id.ID, ""); strings.Contains(string(got.body), id.ID) {
		t.Errorf("an id is taken for a name: %s", got.body)
	}
	w.must(422, user, "GET", "/v1/tools?name=a&search=b", "")
}

func TestAgents_change_in_parts_and_never_show_values(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	w.tool("g", "")
	never := func(a answer) answer {
		if strings.Contains(string(a.body), canary) {
			t.Errorf("a value is shown: %s", a.body)
		}
		return a
	}
	never(w.must(201, admin, "POST", "/v1/agents", `{"name":"smith","tools":["f"],"env":{"A":"`+canary+`","B":"b"}}`))
	w.must(409, admin, "POST", "/v1/agents", `{"name":"smith"}`)
	var a haft.Agent
	never(w.must(200, admin, "PATCH", "/v1/agents/smith", `{"env":{"B":null,"C":"c"},"disabled":true}`)).into(t, &a)
	if _, b := a.Env["B"]; b || len(a.Env) != 2 || !a.Disabled || len(a.Tools) != 1 {
		t.Errorf("got %+v", a)
	}
	w.must(200, admin, "PATCH", "/v1/agents/smith", `{"disabled":false}`)
	w.must(200, admin, "PUT", "/v1/agents/smith/tools/g", "")
	never(w.must(200, admin, "PUT", "/v1/agents/smith/tools/g", "")).into(t, &a) // twice is once
	if len(a.Tools) != 2 {
		t.Errorf("tools: %v", a.Tools)
	}
	w.must(404, admin, "PUT", "/v1/agents/smith/tools/none", "")
	w.must(200, admin, "DELETE", "/v1/agents/smith/tools/f", "")
	w.must(404, admin, "DELETE", "/v1/agents/smith/tools/f", "")
	never(w.must(200, user, "GET", "/v1/agents", ""))
	var put haft.Agent
	never(w.must(200, admin, "PUT", "/v1/agents/"+string(a.ID), `{"tools":["f"]}`)).into(t, &put)
	if put.ID != a.ID || put.Name != "smith" || len(put.Env) != 0 {
		t.Errorf("got %+v", put)
	}
	w.must(201, admin, "PUT", "/v1/agents/jones", `{}`)
}

func TestPolicies_of_the_server_are_for_its_operator(t *testing.T) {
	w := setup(t, nil)
	text := rules + "# mine\n"
	w.must(403, admin, "PUT", "/v1/policies/server", text)
	w.must(403, admin, "GET", "/v1/policies/server", "")
	w.must(204, operator, "PUT", "/v1/policies/server", text, "Content-Type", "application/yaml")
	if a := w.must(200, operator, "GET", "/v1/policies/server", ""); string(a.body) != text ||
		a.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("got %q as %s", a.body, a.header.Get("Content-Type"))
	}
	w.must(422, operator, "PUT", "/v1/policies/server", "version: [")
	w.must(422, operator, "GET", "/v1/policies/others", "")
}

func TestExplain_for_others_is_for_administrators(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	effect := func(who, body string) string {
		var d struct{ Effect string }
		w.must(200, who, "POST", "/v1/policies/explain", body).into(t, &d)
		return d.Effect
	}
	if got := effect(admin, `{"tool":"f"}`); got != "allow" {
		t.Errorf("for oneself: %q", got)
	}
	w.must(403, user, "POST", "/v1/policies/explain", `{"tool":"f"}`)
	if got := effect(admin, `{"tool":"f","user":"eve","roles":["guest"]}`); got != "deny" {
		t.Errorf("for a guest: %q", got)
	}
	w.must(403, user, "POST", "/v1/policies/explain", `{"tool":"f","roles":["admin"]}`)
	w.must(403, user, "POST", "/v1/policies/explain", `{"tool":"f","user":"root"}`)
}

func TestStop_and_resume(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	w.must(403, admin, "POST", "/v1/stop", "")
	w.must(204, operator, "POST", "/v1/stop", `{"reason":"fire"}`)
	if a := w.ask(user, "POST", "/v1/calls", `{"tool":"f"}`); a.status == http.StatusOK &&
		strings.Contains(string(a.body), `"success"`) {
		t.Errorf("a call runs: %s", a.body)
	}
	w.must(204, operator, "POST", "/v1/resume", "")
	w.call(user, `{"tool":"f"}`)
}

func TestBodies_that_cannot_be_read(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	for _, c := range []struct {
		name, body, kind string
		want             int
	}{
		{"none", "", "", 400},
		{"not JSON", canary, "application/json", 400},
		{"half", `{"tool":"` + canary, "application/json", 400},
		{"more than one", `{"tool":"f"}{"tool":"` + canary + `"}`, "application/json", 400},
		{"another type", `<tool>` + canary + `</tool>`, "application/xml", 415},
		{"a list", `["` + canary + `"]`, "application/json", 422},
		{"a number", `{"tool":12345678901}`, "application/json", 422},
		{"a time that is none", `{"tool":"f","deadline":"` + canary + `"}`, "application/json", 422},
		{"what curl says", `{"tool":"f"}`, "application/x-www-form-urlencoded", 200},
		{"a limit that is none", `{"tool":"f","limits":{"wall_ms":"` + canary + `"}}`, "application/json", 422},
		{"a limit that is too large", `{"tool":"f","limits":{"wall_ms":1e300}}`, "application/json", 422},
		{"an environment that is none", `{"tool":"f","env":{"A":["` + canary + `"]}}`, "application/json", 422},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := w.ask(user, "POST", "/v1/calls", c.body, "Content-Type", c.kind)
			if a.status != c.want {
				t.Fatalf("status %d, want %d: %s", a.status, c.want, a.body)
			}
			if c.want > 299 {
				problemOf(t, a)
			}
		})
	}
	p := problemOf(t, w.must(422, user, "POST", "/v1/calls/batch",
		`{"calls":[{"tool":"f"},{"tool":"f","env":{"A":`+`1}}]}`))
	if len(p.Misfits) != 1 || p.Misfits[0].Pointer != "/calls/1/env/A" {
		t.Errorf("misfits: %+v", p.Misfits)
	}
}

func FuzzBodies(f *testing.F) {
	for _, r := range routes() {
		method, path, _ := strings.Cut(r.op, " ")
		if r.body != "" {
			f.Add(method, path, []byte(r.body))
		}
		if r.bad != "" {
			f.Add(method, path, []byte(r.bad))
		}
	}
	f.Add("POST", "/v1/calls", []byte(`{"tool":"f","args":`+strings.Repeat("[", 5000)+`}`))
	handler := setup(f, nil).server.Handler()
	f.Fuzz(func(t *testing.T, method, path string, body []byte) {
		u, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(u.Path, "/v1/") || u.Path == "/v1/events" ||
			!slices.Contains([]string{"POST", "PUT", "PATCH", "GET"}, method) {
			t.Skip("not a request of ours")
		}
		r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost/", bytes.NewReader(body))
		r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.RequestURI = u.Path, u.RawPath, u.RawQuery, path
		r.Header.Set("Authorization", "Bearer "+operator)
		r.Header.Set("Content-Type", "application/json")
		out := httptest.NewRecorder()
		handler.ServeHTTP(out, r)
		// No MCP server can be reached in this world, which it says.
		unreached := out.Code == http.StatusServiceUnavailable && strings.HasPrefix(u.Path, "/v1/mcp_servers/")
		if out.Code >= 500 && !unreached {
			t.Errorf("%s %s %q: %d %s", method, path, body, out.Code, out.Body)
		}
		if out.Code >= 400 {
			problemOf(t, answer{out.Code, out.Header(), out.Body.Bytes()})
		}
	})
}
