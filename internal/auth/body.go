package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"hash"
	"io"
)

// emptyDigest is that of no body.
const emptyDigest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// Body is the body of a signed request. At its end, Read returns io.EOF if the bytes are
// the signed ones, and a refusal otherwise.
//
// A reader that stops before the end has checked nothing: a JSON decoder stops after the
// last brace. So an API reads the whole body, or calls Finish, before it acts.
type Body struct {
	body io.ReadCloser
	want []byte
	sum  hash.Hash
	end  error // io.EOF or a refusal, once it is known
}

// CheckBody returns body with its digest checked: 64 hex digits of SHA-256, as in
// [Identity.Digest]. Nothing fits a digest that is none.
func CheckBody(body io.ReadCloser, digest string) *Body {
	want, err := hex.DecodeString(digest)
	if err != nil {
		want = nil
	}
	return &Body{body: body, want: want, sum: sha256.New()}
}

// Read implements [io.Reader].
func (b *Body) Read(p []byte) (int, error) {
	if b.end != nil {
		return 0, b.end
	}
	n, err := b.body.Read(p)
	b.sum.Write(p[:n])
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	b.end = io.EOF
	if subtle.ConstantTimeCompare(b.sum.Sum(nil), b.want) != 1 {
		b.end = refuse(ReasonBody, "")
		return 0, b.end
	}
	return n, b.end
}

// Finish reads the rest and reports whether the whole body is the signed one. The body must be
// bounded already.
func (b *Body) Finish() error {
	_, err := io.Copy(io.Discard, b)
	return err
}

// Close closes the body beneath.
func (b *Body) Close() error { return b.body.Close() }
