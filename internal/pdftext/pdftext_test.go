package pdftext_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/pdftext"
)

// stream is an object with a stream, compressed so many times.
func stream(dict, content string, times int) string {
	filters := ""
	for range times {
		var b bytes.Buffer
		z := zlib.NewWriter(&b)
		_, _ = z.Write([]byte(content)) // to memory
		_ = z.Close()
		content, filters = b.String(), filters+" /FlateDecode"
	}
	return fmt.Sprintf("<< %s /Filter [%s] /Length %d >>\nstream\n%s\nendstream", dict, filters, len(content), content)
}

// file makes a PDF of objects, the first of which is the catalog. The last may bring a trailer of its own.
func file(objects ...string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.7\n")
	var at []int
	for i, o := range objects {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R /Info 3 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, start)
	return b.Bytes()
}

// paper is a PDF whose pages have these contents.
func paper(times int, contents ...string) []byte {
	kids := ""
	objects := []string{"<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Title (The Title) >>",
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"}
	for _, c := range contents {
		n := len(objects) + 1
		kids += fmt.Sprintf(" %d 0 R", n)
		objects = append(objects, fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "+
			"/Resources << /Font << /F1 4 0 R >> /XObject << /X %d 0 R >> >> >>", n+1, n+1), stream("", c, times))
	}
	objects[1] = fmt.Sprintf("<< /Type /Pages /Kids [%s ] /Count %d >>", kids, len(contents))
	return file(objects...)
}

// words shows a text.
func words(s string) string { return "BT /F1 12 Tf 72 700 Td (" + s + ") Tj ET" }

// newReader returns a reader, and has it prepared.
func newReader(t testing.TB, limit time.Duration) *pdftext.Reader {
	t.Helper()
	r := &pdftext.Reader{Interpret: true, Time: limit}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestReader_reads_pages(t *testing.T) {
	r := newReader(t, 5*time.Minute)
	for times := range 3 {
		got, err := r.Text(t.Context(), "acme", paper(times, words("first page"), words("second page")), 1000)
		want := pdftext.Text{Title: "The Title", Content: "first page\n\nsecond page", Pages: 2, Read: 2}
		if err != nil || got != want {
			t.Errorf("compressed %d times: %+v %v", times, got, err)
		}
	}
	// It stops when there is enough.
	if got, err := r.Text(t.Context(), "acme", paper(0, words("first page"), words("second page")), 5); err != nil ||
		got.Content != "first" || got.Read != 1 || got.Pages != 2 {
		t.Errorf("of five characters: %+v %v", got, err)
	}
	for name, data := range map[string][]byte{"nothing": nil, "text": []byte("hello"),
		"a beginning": []byte("%PDF-1.7\n"), "large": make([]byte, pdftext.MaxBytes+1)} {
		if got, err := r.Text(t.Context(), "acme", data, 10); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}

// hostile are files that want to take memory or time.
func hostile() map[string][]byte {
	nested := stream("", strings.Repeat("\x00", 1<<20), 1)
	deep := strings.Repeat("[", 200_000)
	return map[string][]byte{
		"bomb": paper(2, strings.Repeat(" ", 64<<20)),
		"loop of pages": file("<< /Type /Catalog /Pages 2 0 R >>",
			"<< /Type /Pages /Kids [2 0 R 3 0 R] /Count 1000000 >>",
			"<< /Type /Pages /Parent 2 0 R /Kids [2 0 R] /Count 999999 >>"),
		"many pages": file("<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [] /Count 2147483647 >>",
			"<< >>"),
		"huge xref": []byte("%PDF-1.7\n1 0 obj\n<< /Type /Catalog >>\nendobj\nxref\n0 2147483647\n" +
			"0000000009 00000 n \ntrailer\n<< /Size 2147483647 /Root 1 0 R >>\nstartxref\n45\n%%EOF"),
		"loop of xref": []byte("%PDF-1.7\nxref\n0 1\n0000000000 65535 f \ntrailer\n" +
			"<< /Size 1 /Root 1 0 R /Prev 9 >>\nstartxref\n9\n%%EOF"),
		"loop of a form": paper(0, "/X Do"),
		"deep":           file("<< /Type /Catalog /Pages 2 0 R /A "+deep+" >>", "<< /Type /Pages >>", "<< >>"),
		"object streams": file("<< /Type /Catalog /Pages 2 0 R >>", nested, "<< /Type /ObjStm /Extends 3 0 R >>"),
		"much text":      paper(1, strings.Repeat(words("again and again"), 50_000)),
	}
}

// Whatever a file does, it costs bounded time and memory, and the next file is read.
func TestReader_survives_hostile_files(t *testing.T) {
	r := newReader(t, 500*time.Millisecond)
	for name, data := range hostile() {
		text, err := r.Text(t.Context(), "acme", data, 1000)
		if err != nil && haft.CodeOf(err) != haft.CodeInvalid || len(text.Content) > 4000 || text.Read > 500 {
			t.Errorf("%s: %d bytes of %d pages, %v", name, len(text.Content), text.Read, err)
		}
	}
	r.Time = 5 * time.Minute
	if got, err := r.Text(t.Context(), "acme", paper(1, words("fine")), 100); err != nil || got.Content != "fine" {
		t.Errorf("after them: %+v %v", got, err)
	}
}

// A caller who leaves is not kept waiting by a file.
func TestReader_stops_with_its_caller(t *testing.T) {
	r := newReader(t, 5*time.Minute)
	if _, err := r.Text(t.Context(), "acme", paper(0, words("x")), 10); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := r.Text(ctx, "acme", paper(1, strings.Repeat(words("again and again"), 500_000)), 1<<30); err == nil {
		t.Error("it read on")
	}
}

func FuzzReader(f *testing.F) {
	f.Add(paper(1, words("a"), words("b")))
	for _, data := range hostile() {
		if len(data) < 64<<10 {
			f.Add(data)
		}
	}
	r := newReader(f, time.Second)
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := r.Text(t.Context(), "acme", data, 1000)
		if err != nil && haft.CodeOf(err) != haft.CodeInvalid || len(text.Content) > 4000 {
			t.Errorf("%d bytes, %v", len(text.Content), err)
		}
	})
}
