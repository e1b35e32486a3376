package redo_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft/internal/store/redo"
)

const name = "log"

// root opens a new directory.
func root(t testing.TB) *os.Root {
	t.Helper()
	r, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// open opens a log.
func open(t testing.TB, dir *os.Root, epoch uint64) *redo.Log {
	t.Helper()
	l, err := redo.Open(dir, name, 7, epoch)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// appended adds a record.
func appended(t testing.TB, l *redo.Log, payload []byte) uint64 {
	t.Helper()
	n, err := l.Append(payload)
	if err != nil {
		t.Fatalf("Append: %v", err)
	}
	return n
}

// read reads records back.
func read(t testing.TB, dir *os.Root, epoch, after uint64) []redo.Record {
	t.Helper()
	c, err := redo.Read(dir, name, epoch, after)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	return c.Records
}

func TestRead(t *testing.T) {
	dir := root(t)
	if list := read(t, dir, 1, 0); len(list) != 0 {
		t.Errorf("no file holds %d records", len(list))
	}
	l := open(t, dir, 1)
	var want []redo.Record
	for i, size := range []int{0, 1, 4063, 4064, 4065, 100_000, 3} {
		payload := bytes.Repeat([]byte{byte(i + 1)}, size)
		want = append(want, redo.Record{Number: appended(t, l, payload), Version: 7, Payload: payload})
	}
	for after := range len(want) {
		if diff := cmp.Diff(want[after:], read(t, dir, 1, uint64(after))); diff != "" {
			t.Fatalf("after %d (-want +got):\n%.2000s", after, diff)
		}
	}
	if list := read(t, dir, 1, 99); len(list) != 0 {
		t.Errorf("%d records are behind the last", len(list))
	}
	if list := read(t, dir, 2, 0); len(list) != 0 {
		t.Errorf("%d records are of another epoch", len(list))
	}
	again := open(t, dir, 3)
	appended(t, again, []byte("new"))
	if list := read(t, dir, 3, 0); len(list) != 1 || string(list[0].Payload) != "new" {
		t.Errorf("the new epoch holds %d records", len(list))
	}
}

// TestLog_any_story: whatever is appended and trimmed, what was not trimmed is read
// back.
func TestLog_any_story(t *testing.T) {
	for seed := range uint64(5) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		dir := root(t)
		l := open(t, dir, seed)
		var kept [][]byte // behind mark
		mark, full := uint64(0), 0
		for range 120 {
			payload := make([]byte, rnd.IntN(redo.MaxPayload/4))
			for i := 0; i < len(payload); i += 97 {
				payload[i] = byte(rnd.Uint32())
			}
			switch _, err := l.Append(payload); {
			case err == nil:
				kept = append(kept, payload)
			case errors.Is(err, redo.ErrFull):
				full++
			default:
				t.Fatal(err)
			}
			if n := rnd.IntN(len(kept) + 1); rnd.IntN(4) == 0 || l.Filled() && rnd.IntN(2) == 0 {
				mark, kept = mark+uint64(n), kept[n:]
				l.Trim(mark)
			}
		}
		list := read(t, dir, seed, mark)
		if len(list) != len(kept) {
			t.Fatalf("seed %d: %d records behind %d, want %d", seed, len(list), mark, len(kept))
		}
		for i, r := range list {
			if r.Number != mark+uint64(i)+1 || !bytes.Equal(r.Payload, kept[i]) {
				t.Fatalf("seed %d: record %d is another", seed, i)
			}
		}
		t.Logf("seed %d: %d records behind %d, full %d times", seed, len(list), mark, full)
	}
}

func TestLog_full(t *testing.T) {
	l := open(t, root(t), 1)
	payload := make([]byte, redo.MaxPayload)
	last := uint64(0)
	for {
		n, err := l.Append(payload)
		if errors.Is(err, redo.ErrFull) {
			break
		}
		if err != nil || n != last+1 {
			t.Fatalf("Append = %d, %v", n, err)
		}
		last = n
	}
	if last != (redo.Size-4096)/(redo.MaxPayload+32) || !l.Filled() {
		t.Errorf("the log is full after %d records", last)
	}
	l.Trim(1)
	if n := appended(t, l, payload); n != last+1 {
		t.Errorf("the record is number %d, want %d", n, last+1)
	}
	if _, err := l.Append(append(payload, 0)); !errors.Is(err, redo.ErrTooLong) {
		t.Errorf("a record that is too long: %v", err)
	}
	if l.Err() != nil {
		t.Errorf("the log has failed: %v", l.Err())
	}
}

func TestRead_damage(t *testing.T) {
	dir := root(t)
	l := open(t, dir, 1)
	for i := range 5 {
		appended(t, l, bytes.Repeat([]byte{byte(i)}, 5000)) // two blocks each
	}
	file := filepath.Join(dir.Name(), name)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		at, kept int
		last     uint64
	}{
		{4096, 0, 5}, {4096 + 20, 0, 5}, {4096 + 5000, 0, 5}, {3*4096 + 40, 1, 5}, // others follow
		{9 * 4096, 4, 4}, {10*4096 + 5, 4, 4}, {10*4096 + 4000, 5, 5}, {12 * 4096, 5, 5},
	} {
		t.Run(fmt.Sprint(tt.at), func(t *testing.T) {
			broken := bytes.Clone(whole)
			broken[tt.at] ^= 0x10
			c := redo.ContentOf(broken, 1, 0)
			if len(c.Records) != tt.kept || c.Last != tt.last || c.Head == nil ||
				*c.Head != (redo.Head{Epoch: 1, Last: 5}) {
				t.Errorf("%d records up to %d, head %+v, want %d up to %d", len(c.Records), c.Last, c.Head, tt.kept,
					tt.last)
			}
		})
	}
	whole[5] ^= 1
	if c := redo.ContentOf(whole, 1, 0); c.Head != nil {
		t.Errorf("a damaged head is %+v", c.Head)
	}
}

// TestErase: the head says that the records were there.
func TestErase(t *testing.T) {
	dir := root(t)
	if err := redo.Erase(dir, name); err != nil {
		t.Errorf("without a file: %v", err)
	}
	l := open(t, dir, 1)
	l.Trim(appended(t, l, []byte("a")))
	if err := redo.Erase(dir, name); err != nil {
		t.Fatal(err)
	}
	c, err := redo.Read(dir, name, 1, 0)
	if err != nil || c.Last != 0 || c.Head == nil || *c.Head != (redo.Head{Epoch: 1, Last: 1, Erased: 1}) {
		t.Errorf("after Erase: %+v, head %+v, %v", c, c.Head, err)
	}
}

// TestAppend_leaves_the_last_record: one that is cut off by a loss of power is not
// written over the one before, also if that is trimmed.
func TestAppend_leaves_the_last_record(t *testing.T) {
	dir := root(t)
	l := open(t, dir, 1)
	for i := range 40 {
		l.Trim(appended(t, l, make([]byte, redo.MaxPayload-i*4096)))
		if i == 0 {
			continue
		}
		if list := read(t, dir, 1, uint64(i-1)); len(list) != 2 {
			t.Fatalf("record %d was written over the one before", i+1)
		}
	}
}

func TestOpen_files(t *testing.T) {
	dir := root(t)
	if err := os.WriteFile(filepath.Join(dir.Name(), name), []byte("short"), 0o644); err != nil {
		t.Fatal(err)
	}
	l := open(t, dir, 1)
	appended(t, l, []byte("a"))
	info, err := dir.Stat(name)
	if err != nil || info.Mode() != 0o600 || info.Size() != redo.Size {
		t.Errorf("the file is %v with %d bytes, %v", info.Mode(), info.Size(), err)
	}
	if err := dir.Mkdir("dir", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := redo.Open(dir, "dir", 7, 1); err == nil {
		t.Error("a directory is a log")
	}
}

func FuzzRead(f *testing.F) {
	dir, err := os.MkdirTemp(f.TempDir(), "")
	if err != nil {
		f.Fatal(err)
	}
	r, err := os.OpenRoot(dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = r.Close() })
	l := open(f, r, 1)
	for i := range 3 {
		appended(f, l, bytes.Repeat([]byte{byte(i)}, 4090))
	}
	whole, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole[:6*4096], uint64(0))
	f.Add([]byte("haft"), uint64(1))
	f.Fuzz(func(t *testing.T, raw []byte, after uint64) {
		for i, r := range redo.ContentOf(raw, 1, after).Records {
			if r.Number != after+uint64(i)+1 {
				t.Errorf("record %d has number %d", i, r.Number)
			}
		}
	})
}
