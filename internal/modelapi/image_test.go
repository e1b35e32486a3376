package modelapi_test

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/gif"
	"image/jpeg"
	imagepng "image/png"
	"strings"
	"testing"

	"haft/internal/modelapi"
)

// encoded returns an image of a size as a file.
func encoded(t *testing.T, format string, width, height int) []byte {
	t.Helper()
	img, b := image.NewGray(image.Rect(0, 0, width, height)), &bytes.Buffer{}
	var err error
	switch format {
	case "png":
		err = imagepng.Encode(b, img)
	case "jpeg":
		err = jpeg.Encode(b, img, nil)
	case "gif":
		err = gif.Encode(b, img, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// webp returns the header of a WebP image of a kind.
func webp(kind string, width, height int) []byte {
	b := append([]byte("RIFF\x00\x00\x00\x00WEBP"+kind), make([]byte, 30)...)
	switch kind {
	case "VP8X":
		binary.LittleEndian.PutUint32(b[24:], uint32(width-1))
		b[27], b[28], b[29] = byte(height-1), byte((height-1)>>8), byte((height-1)>>16)
	case "VP8L":
		b[20] = 0x2f
		binary.LittleEndian.PutUint32(b[21:], uint32(width-1)|uint32(height-1)<<14)
	case "VP8 ":
		copy(b[23:], "\x9d\x01\x2a")
		binary.LittleEndian.PutUint16(b[26:], uint16(width))
		binary.LittleEndian.PutUint16(b[28:], uint16(height))
	}
	return b
}

func TestCheckImage(t *testing.T) {
	for _, test := range []struct {
		name      string
		data      []byte
		want, why string
	}{
		{"png", encoded(t, "png", 3, 2), "image/png", ""},
		{"jpeg", encoded(t, "jpeg", 3, 2), "image/jpeg", ""},
		{"gif", encoded(t, "gif", 3, 2), "image/gif", ""},
		{"webp, lossy", webp("VP8 ", 3, 2), "image/webp", ""},
		{"webp, lossless", webp("VP8L", 3, 2), "image/webp", ""},
		{"webp, extended", webp("VP8X", 3, 2), "image/webp", ""},
		{"webp that is huge", webp("VP8X", 9000, 2), "", "more than 8000 pixels"},
		{"webp that is huge, lossless", webp("VP8L", 9000, 2), "", "more than 8000 pixels"},
		{"webp of nothing", webp("VP8 ", 0, 2), "", "header"},
		{"webp of another kind", webp("VP9 ", 3, 2), "", "header"},
		{"webp, cut", webp("VP8 ", 3, 2)[:20], "", "header"},
		{"png, long", encoded(t, "png", 8001, 1), "", "more than 8000 pixels"},
		{"png, cut", encoded(t, "png", 3, 2)[:20], "", "header"},
		{"png, garbage", []byte("\x89PNG\r\n\x1a\n" + strings.Repeat("x", 100)), "", "header"},
		{"svg", []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), "", "no PNG"},
		{"pdf", []byte("%PDF-1.7\n" + strings.Repeat("x", 100)), "", "no PNG"},
		{"nothing", nil, "", "no PNG"},
	} {
		got, err := modelapi.CheckImage(bytes.NewReader(test.data))
		if got != test.want || (err == nil) != (test.why == "") ||
			err != nil && !strings.Contains(err.Error(), test.why) {
			t.Errorf("%s: %q, %v", test.name, got, err)
		}
	}
}

// No file makes the check panic, and a file whose header says that it is huge costs no memory.
func FuzzCheckImage(f *testing.F) {
	for _, kind := range []string{"VP8 ", "VP8L", "VP8X"} {
		f.Add(webp(kind, 3, 2))
	}
	f.Add([]byte("\x89PNG\r\n\x1a\n"))
	f.Add([]byte("\xff\xd8\xff\xe0"))
	f.Add([]byte("GIF89a\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if mime, err := modelapi.CheckImage(bytes.NewReader(data)); (mime == "") == (err == nil) {
			t.Errorf("%q, %v", mime, err)
		}
	})
}
