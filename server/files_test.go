package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"strings"
	"testing"

	"haft"
	"haft/executor"
	"haft/server"
)

// A formPart is a field of a form; one without a file name is no file.
type formPart struct{ field, file, kind, content string }

// form writes fields as a form, and returns it and its content type.
func form(t *testing.T, parts ...formPart) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, p := range parts {
		head := textproto.MIMEHeader{}
		head.Set("Content-Disposition", fmt.Sprintf("form-data; name=%q", p.field))
		if p.file != "" {
			head.Set("Content-Disposition", fmt.Sprintf("form-data; name=%q; filename=%q", p.field, p.file))
		}
		if p.kind != "" {
			head.Set("Content-Type", p.kind)
		}
		part, err := w.CreatePart(head)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Write([]byte(p.content)); err != nil {
			t.Fatal(err)
		}
	}
	check(t, w.Close())
	return b.String(), w.FormDataContentType()
}

func TestFiles_form(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	for _, tt := range []struct {
		name, query string
		parts       []formPart
		file, kind  string // what the file is called and is of
	}{
		{name: "named by the form", parts: []formPart{{"file", "a.csv", "text/csv", "a,b\n"}}, file: "a.csv",
			kind: "text/csv"},
		{name: "named by the address", query: "?name=b.csv", file: "b.csv", kind: "text/csv",
			parts: []formPart{{"any", "a.csv", "text/csv", "a,b\n"}}},
		{name: "of any bytes", file: "x", kind: "application/octet-stream",
			parts: []formPart{{"file", "x", "application/octet-stream", "\x00\r\n--\xff"}}},
		{name: "empty", file: "none.txt", kind: "text/plain",
			parts: []formPart{{"file", "none.txt", "text/plain", ""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, contentType := form(t, tt.parts...)
			var f haft.File
			a := w.must(201, user, "POST", "/v1/files"+tt.query, body, "Content-Type", contentType)
			a.into(t, &f)
			content := tt.parts[0].content
			sum := sha256.Sum256([]byte(content))
			if f.Name != tt.file || f.ContentType != tt.kind || f.Size != int64(len(content)) || !f.Complete() ||
				f.SHA256 != hex.EncodeToString(sum[:]) || a.header.Get("Location") != "/v1/files/"+string(f.ID) {
				t.Errorf("the file is %+v, at %s", f, a.header.Get("Location"))
			}
			if got := w.must(200, user, "GET", "/v1/files/"+string(f.ID)+"/content", ""); string(got.body) != content {
				t.Errorf("the content is %q", got.body)
			}
		})
	}
}

// ATTACK: forms that are cut short, have no file or several, or whose file name is a path.
func TestFiles_form_refused(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	file := formPart{"file", "a.txt", "text/plain", canary}
	one, contentType := form(t, file)
	two, twoType := form(t, file, file)
	field, fieldType := form(t, formPart{field: "file", content: canary})
	none, noneType := form(t)
	for name, tt := range map[string][2]string{
		"two files":          {two, twoType},
		"a field":            {field, fieldType},
		"nothing":            {none, noneType},
		"no boundary":        {one, "multipart/form-data"},
		"another boundary":   {one, "multipart/form-data; boundary=" + canary},
		"cut in the content": {one[:strings.Index(one, canary)+3], contentType},
		"cut in the head":    {one[:20], contentType},
		"no form":            {canary, contentType},
	} {
		a := w.ask(user, "POST", "/v1/files", tt[0], "Content-Type", tt[1])
		if p := problemOf(t, a); a.status != 422 && a.status != 400 || !strings.Contains(p.Detail, "one file") {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	body, contentType := form(t, formPart{"file", "../../etc/passwd", "text/plain", "x"})
	var f haft.File
	w.must(201, user, "POST", "/v1/files", body, "Content-Type", contentType).into(t, &f)
	if f.Name != "passwd" {
		t.Errorf("the file is called %q", f.Name)
	}
	var list server.Page[haft.File]
	w.must(200, user, "GET", "/v1/files", "").into(t, &list)
	if len(list.Data) != 1 {
		t.Errorf("the refused forms left %+v", list.Data)
	}
}

// A file that is sent in parts goes on where it ended, however often its sender is cut off.
func TestFiles_in_parts(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	const part = 64 << 10 // the smallest in the middle of a file
	content := strings.Repeat("0123456789abcdef", part/16*2) + "end"
	var f haft.File
	w.must(201, user, "POST", fmt.Sprintf("/v1/files?name=big.txt&size=%d", len(content)), "",
		"Content-Type", "text/plain").into(t, &f)
	path := "/v1/files/" + string(f.ID)
	if f.Complete() || f.Uploaded != 0 {
		t.Fatalf("a file without parts: %+v", f)
	}
	w.must(409, user, "GET", path+"/content", "")
	for _, to := range []int{part, 2 * part, len(content)} {
		from := f.Uploaded
		body := content[from:to]
		w.must(200, user, "PATCH", fmt.Sprintf("%s?offset=%d", path, from), body).into(t, &f)
		if f.Uploaded != int64(to) {
			t.Errorf("after the part from %d to %d: %+v", from, to, f)
		}
		// The answer is lost, and the sender asks again: the part is not added twice, and the file says where it ends.
		if a := w.ask(user, "PATCH", fmt.Sprintf("%s?offset=%d", path, from), body); a.status != 409 {
			t.Errorf("the same part again: %d %s", a.status, a.body)
		}
		var shown haft.File
		if w.must(200, user, "GET", path, "").into(t, &shown); shown.Uploaded != f.Uploaded {
			t.Errorf("%d bytes are there, and the file shows %d", f.Uploaded, shown.Uploaded)
		}
	}
	sum := sha256.Sum256([]byte(content))
	got := w.must(200, user, "GET", path+"/content", "")
	if !f.Complete() || f.SHA256 != hex.EncodeToString(sum[:]) || string(got.body) != content ||
		got.header.Get("ETag") != `"`+f.SHA256+`"` {
		t.Errorf("the file is %+v, with %d bytes and the headers %v", f, len(got.body), got.header)
	}
}

// Artifacts are served whole and in ranges, as files that a browser saves and never shows.
func TestArtifacts_are_served(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	const csv = "a,b\n1,2\n"
	large := strings.Repeat("0123456789abcdef", 1<<16) // is kept as a file, and not in the record of its call
	left := []haft.Artifact{
		{Name: "report/a b.csv", ContentType: "text/csv", Data: []byte(csv)},
		{Name: "page.html", ContentType: "text/html; charset=utf-8", Data: []byte("<script>alert(1)</script>")},
		{Name: "image.svg", ContentType: "image/svg+xml", Data: []byte("<svg onload='alert(1)'/>")},
		{Name: "large.txt", ContentType: "text/plain", Data: []byte(large)},
	}
	for i := range left {
		left[i].Size = int64(len(left[i].Data))
	}
	w.set(func(ctx context.Context, req executor.Request) (*haft.Result, error) {
		res, err := echo(ctx, req)
		res.Artifacts = left
		return res, err
	})
	w.tool("f", "")
	path := "/v1/calls/" + string(w.call(user, `{"tool":"f"}`).Call) + "/artifacts/"
	for i, tt := range []struct{ kind, saved string }{{"text/csv", "a%20b.csv"},
		{"application/octet-stream", "page.html"}, {"application/octet-stream", "image.svg"},
		{"text/plain", "large.txt"}} {
		at, want := path+url.PathEscape(left[i].Name), string(left[i].Data)
		n := len(want)
		for ranges, expect := range map[string]struct {
			status     int
			body, says string
		}{
			"":            {200, want, ""},
			"bytes=2-4":   {206, want[2:5], fmt.Sprintf("bytes 2-4/%d", n)},
			"bytes=-3":    {206, want[n-3:], fmt.Sprintf("bytes %d-%d/%d", n-3, n-1, n)},
			"bytes=0-,2-": {200, want, ""}, // several ranges are not worth their cost
		} {
			a := w.must(expect.status, user, "GET", at, "", "Range", ranges)
			if string(a.body) != expect.body || a.header.Get("Content-Range") != expect.says {
				t.Errorf("%s, range %q: %.40q (%d bytes), Content-Range %q", left[i].Name, ranges, a.body, len(a.body),
					a.header.Get("Content-Range"))
			}
			for name, value := range map[string]string{"Content-Type": tt.kind,
				"Content-Disposition":     "attachment; filename*=UTF-8''" + tt.saved,
				"Content-Security-Policy": "sandbox; default-src 'none'", "X-Content-Type-Options": "nosniff"} {
				if got := a.header.Get(name); got != value {
					t.Errorf("%s, range %q: %s is %q, want %q", left[i].Name, ranges, name, got, value)
				}
			}
		}
		w.must(416, user, "GET", at, "", "Range", fmt.Sprintf("bytes=%d-", n))
		w.must(404, stranger, "GET", at, "")
		w.must(404, other, "GET", at, "")
	}
	w.must(404, user, "GET", path+"none", "")
}
