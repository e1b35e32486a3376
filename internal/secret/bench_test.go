package secret_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"haft/internal/secret"
)

// manyValues returns n values such as services hand out.
func manyValues(n int) []secret.Named {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	named := make([]secret.Named, n)
	for i := range named {
		b := make([]byte, 24+rng.IntN(25))
		for k := range b {
			b[k] = letters[rng.IntN(len(letters))]
		}
		named[i] = secret.Named{Name: fmt.Sprint("V", i), Value: secret.New(string(b))}
	}
	return named
}

// corpora are texts such as tools write.
func corpora() map[string][]byte {
	rng := rand.New(rand.NewPCG(7, 7))
	random := make([]byte, 1<<20)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	words := strings.Fields("the quick brown fox jumps over a lazy dog while the server returned an answer of 200 " +
		"in 35 ms and wrote report.csv to disk")
	var prose, log strings.Builder
	for prose.Len() < 1<<20 {
		prose.WriteString(words[rng.IntN(len(words))])
		prose.WriteByte(" \n"[rng.IntN(12)/11])
	}
	for log.Len() < 1<<20 {
		fmt.Fprintf(&log,
			`{"time":"2026-11-15T06:%02d:%02d.%06dZ","level":"INFO","msg":"handled \"%s\"","path":"/v1/items/%d?q=a%%20b","bytes":%d}`+"\n",
			rng.IntN(60), rng.IntN(60), rng.IntN(1e6), words[rng.IntN(len(words))], rng.IntN(1e5), rng.IntN(1e6))
	}
	return map[string][]byte{
		"prose":  []byte(prose.String()),
		"log":    []byte(log.String()),
		"base64": []byte(base64.StdEncoding.EncodeToString(random)),
		"hex":    []byte(hex.EncodeToString(random)),
		"binary": random,
	}
}

func BenchmarkStream(b *testing.B) {
	texts := corpora()
	for _, n := range []int{1, 20, 1000} {
		r := secret.NewRedactor(secret.Config{Values: manyValues(n)})
		for _, name := range []string{"prose", "log", "base64", "hex", "binary"} {
			b.Run(fmt.Sprintf("%d values/%s", n, name), func(b *testing.B) {
				stream(b, r, texts[name])
			})
		}
	}
	r := secret.NewRedactor(secret.Config{Values: manyValues(1000), Formats: true})
	for name, text := range texts {
		b.Run("1000 values and formats/"+name, func(b *testing.B) { stream(b, r, text) })
	}
	for name, text := range worst(manyValues(1000)) {
		b.Run("1000 values and formats/worst/"+name, func(b *testing.B) { stream(b, r, text) })
	}
	r = secret.NewRedactor(secret.Config{Values: manyValues(1000), Formats: true, Personal: true})
	b.Run("1000 values, formats and personal/prose", func(b *testing.B) { stream(b, r, texts["prose"]) })
}

func stream(b *testing.B, r *secret.Redactor, text []byte) {
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	before := processorTime(b)
	defer func() {
		b.ReportMetric(float64(len(text))*float64(b.N)/1e6/(processorTime(b)-before).Seconds(), "MB/cpu-s")
	}()
	for b.Loop() {
		n := 0
		s := r.NewStream(func(p []byte) { n += len(p) })
		for chunk := range slices.Chunk(text, 32<<10) {
			_, _ = s.Write(chunk)
		}
		_ = s.Close()
		if n < len(text)/4 {
			b.Fatal("lost", n)
		}
	}
}

// processorTime is how long this process has used processors: unlike a clock it
// does not depend on who else wants them.
func processorTime(b testing.TB) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkNewRedactor(b *testing.B) {
	for _, n := range []int{0, 1, 20, 1000} {
		values := manyValues(n)
		b.Run(fmt.Sprintf("%d values", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				secret.NewRedactor(secret.Config{Values: values})
			}
		})
	}
	for _, n := range []int{1, 20} {
		values := manyValues(n)
		b.Run(fmt.Sprintf("%d values and formats", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				secret.NewRedactor(secret.Config{Values: values, Formats: true})
			}
		})
	}
}

func BenchmarkText(b *testing.B) {
	r := secret.NewRedactor(secret.Config{Values: manyValues(20)})
	b.ReportAllocs()
	for b.Loop() {
		r.Text("the answer is 42, and \"nothing\" else\n")
	}
}
