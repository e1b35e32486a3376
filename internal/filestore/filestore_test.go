package filestore_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"haft"
	"haft/internal/authority"
	"haft/internal/filestore"
	"haft/internal/store"
	"haft/internal/store/postgres"
	"haft/internal/store/sqlite"
	"haft/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	ann  = haft.Principal{Org: "acme", User: "ann"}
	bob  = haft.Principal{Org: "acme", User: "bob"}
	evil = haft.Principal{Org: "evil", User: "ann"}
)

// databases runs a test on every database.
func databases(t *testing.T, test func(t *testing.T, db *store.Store)) {
	open := map[string]func(t *testing.T) (*store.Store, error){
		"sqlite": func(t *testing.T) (*store.Store, error) {
			return sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
		},
		"postgres": func(t *testing.T) (*store.Store, error) {
			return postgres.Open(t.Context(), storetest.Postgres(t), postgres.Config{})
		},
	}
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			db, err := open(t)
			check(t, err)
			defer func() { check(t, db.Close()) }()
			test(t, db)
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code haft.Code) {
	t.Helper()
	if haft.CodeOf(err) != code {
		t.Errorf("error %v, want %s", err, code)
	}
}

// rows counts the rows of a table.
func rows(t *testing.T, db *store.Store, table string) (n int) {
	t.Helper()
	check(t, store.TablesOf(db).Each(t.Context(), "count", func(r store.Scanner) error { return r.Scan(&n) },
		"SELECT count(*) FROM "+table))
	return n
}

func content(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // which never fails
	return b
}

func TestStore_parts_and_ranges(t *testing.T) {
	databases(t, func(t *testing.T, db *store.Store) {
		s, all := filestore.New(db, filestore.Config{}), content(5<<20+17)
		f, err := s.Add(t.Context(), ann, haft.NewFile{Name: "a.bin", Size: int64(len(all))}, "", all[:3<<20+5])
		check(t, err)
		if f.Complete() {
			t.Error("complete with a part")
		}
		_, err = s.Content(t.Context(), *f)
		wantCode(t, err, haft.CodeConflict)
		_, err = s.Append(t.Context(), *f, 1, all[1:2])
		wantCode(t, err, haft.CodeConflict)
		_, err = s.Append(t.Context(), *f, f.Uploaded, all[f.Uploaded:f.Uploaded+1])
		wantCode(t, err, haft.CodeInvalid) // a row of one byte
		_, err = s.Append(t.Context(), *f, f.Uploaded, content(4<<20))
		wantCode(t, err, haft.CodeInvalid)
		f, err = s.Append(t.Context(), *f, f.Uploaded, all[f.Uploaded:])
		check(t, err)
		if sum := sha256.Sum256(all); f.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("digest %s", f.SHA256)
		}
		got, err := s.Content(t.Context(), *f)
		check(t, err)
		if !bytes.Equal(got, all) {
			t.Error("another content")
		}
		r := s.Open(t.Context(), *f)
		_, err = r.Seek(-100, io.SeekEnd)
		check(t, err)
		if tail, err := io.ReadAll(r); err != nil || !bytes.Equal(tail, all[len(all)-100:]) {
			t.Errorf("the end is %d bytes, %v", len(tail), err)
		}
	})
}

// TestStore_shares_content: equal content is kept once in an organisation, and until the last
// file with it is removed.
func TestStore_shares_content(t *testing.T) {
	databases(t, func(t *testing.T, db *store.Store) {
		s, all := filestore.New(db, filestore.Config{}), content(3<<20)
		add := func(p haft.Principal) haft.File {
			f, err := s.Add(t.Context(), p, haft.NewFile{Name: "f", Size: int64(len(all))}, "", all)
			check(t, err)
			return *f
		}
		first, second := add(ann), add(bob)
		if n := rows(t, db, "file_parts"); n != 3 {
			t.Errorf("%d rows of content for two equal files, want 3", n)
		}
		other := add(evil)
		if n := rows(t, db, "file_parts"); n != 6 {
			t.Errorf("%d rows of content for two organisations, want 6", n)
		}
		check(t, s.Remove(t.Context(), first))
		wantCode(t, s.Remove(t.Context(), first), haft.CodeNotFound)
		if got, err := s.Content(t.Context(), second); err != nil || !bytes.Equal(got, all) {
			t.Errorf("the other file has %d bytes, %v", len(got), err)
		}
		check(t, s.Erase(t.Context(), "acme", "bob"))
		check(t, s.Remove(t.Context(), other))
		if files, parts := rows(t, db, "files"), rows(t, db, "file_parts"); files+parts != 0 {
			t.Errorf("%d files and %d rows of content are left", files, parts)
		}
		var used int64
		check(t, store.TablesOf(db).Each(t.Context(), "sum", func(r store.Scanner) error { return r.Scan(&used) },
			"SELECT CAST(sum(files) + sum(bytes) AS BIGINT) FROM file_quotas"))
		if used != 0 {
			t.Errorf("%d are still counted", used)
		}
	})
}

// TestStore_quota: uploads at once never exceed the quota together.
func TestStore_quota(t *testing.T) {
	databases(t, func(t *testing.T, db *store.Store) {
		s := filestore.New(db, filestore.Config{Quota: 10_000, Count: 8, MaxFile: 5000})
		_, err := s.Add(t.Context(), ann, haft.NewFile{Name: "f", Size: 5001}, "", nil)
		wantCode(t, err, haft.CodeInvalid)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				_, err := s.Add(t.Context(), ann, haft.NewFile{Name: "f", Size: 2000}, "", nil)
				if err != nil && haft.CodeOf(err) != haft.CodeConflict {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := rows(t, db, "files"); n != 5 {
			t.Errorf("%d files of 2,000 bytes in a quota of 10,000", n)
		}
		_, err = s.Add(t.Context(), evil, haft.NewFile{Name: "f", Size: 2000}, "", nil)
		check(t, err)
		for range 3 {
			_, err := s.Add(t.Context(), ann, haft.NewFile{Name: "empty"}, "", nil)
			check(t, err)
		}
		_, err = s.Add(t.Context(), ann, haft.NewFile{Name: "empty"}, "", nil)
		wantCode(t, err, haft.CodeConflict)
	})
}

func TestStore_sweep(t *testing.T) {
	databases(t, func(t *testing.T, db *store.Store) {
		s, now := filestore.New(db, filestore.Config{}), time.Now()
		filestore.SetClock(s, func() time.Time { return now })
		short, err := s.Add(t.Context(), ann, haft.NewFile{Name: "f", Size: 1, TTL: haft.Millis(time.Minute)}, "",
			[]byte("x"))
		check(t, err)
		orphan, err := s.Add(t.Context(), ann, haft.NewFile{Name: "f", Size: 1}, "c_gone", []byte("y"))
		check(t, err)
		_, err = s.Add(t.Context(), ann, haft.NewFile{Name: "f", Size: 1}, "", []byte("z"))
		check(t, err)
		if n, err := s.Sweep(t.Context()); n != 0 || err != nil {
			t.Errorf("%d swept, %v", n, err)
		}
		now = now.Add(2 * time.Minute)
		_, err = s.Get(t.Context(), "acme", short.ID)
		wantCode(t, err, haft.CodeNotFound)
		if n, err := s.Sweep(t.Context()); n != 1 || err != nil {
			t.Errorf("%d swept, %v", n, err)
		}
		now = now.Add(2 * time.Hour)
		if n, err := s.Sweep(t.Context()); n != 1 || err != nil {
			t.Errorf("%d swept, %v", n, err)
		}
		_, err = s.Get(t.Context(), "acme", orphan.ID)
		wantCode(t, err, haft.CodeNotFound)
		if n := rows(t, db, "files"); n != 1 {
			t.Errorf("%d files are left", n)
		}
	})
}

// TestStore_bind: the files of a call are those that its caller may read, under names that stay
// in the directory of the tool.
func TestStore_bind(t *testing.T) {
	db, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
	check(t, err)
	defer func() { check(t, db.Close()) }()
	s := filestore.New(db, filestore.Config{})
	f, err := s.Add(t.Context(), ann, haft.NewFile{Name: "photo.png", Size: 5}, "", []byte("photo"))
	check(t, err)
	part, err := s.Add(t.Context(), ann, haft.NewFile{Name: "part", Size: 5}, "", []byte("p"))
	check(t, err)
	confined := ann
	confined.Actions = []haft.Action{haft.CallsWrite}
	tests := map[string]struct {
		p    haft.Principal
		list []haft.CallFile
		code haft.Code
	}{
		"own":                  {ann, []haft.CallFile{{ID: f.ID}}, ""},
		"of another user":      {bob, []haft.CallFile{{ID: f.ID}}, haft.CodeInvalid},
		"of another tenant":    {evil, []haft.CallFile{{ID: f.ID}}, haft.CodeInvalid},
		"without files:read":   {confined, []haft.CallFile{{ID: f.ID}}, haft.CodeDenied},
		"inline without scope": {confined, []haft.CallFile{{Path: "a", Data: []byte("x")}}, ""},
		"that never was":       {ann, []haft.CallFile{{ID: "file_none"}}, haft.CodeInvalid},
		"that is not complete": {ann, []haft.CallFile{{ID: part.ID}}, haft.CodeInvalid},
		"with both":            {ann, []haft.CallFile{{ID: f.ID, Data: []byte("x")}}, haft.CodeInvalid},
		"without a name":       {ann, []haft.CallFile{{Data: []byte("x")}}, haft.CodeInvalid},
		"outside":              {ann, []haft.CallFile{{ID: f.ID, Path: "../x"}}, haft.CodeInvalid},
		"absolute":             {ann, []haft.CallFile{{ID: f.ID, Path: "/etc/passwd"}}, haft.CodeInvalid},
		"NUL":                  {ann, []haft.CallFile{{ID: f.ID, Path: "a\x00b"}}, haft.CodeInvalid},
		"twice":                {ann, []haft.CallFile{{ID: f.ID}, {ID: f.ID}}, haft.CodeInvalid},
		"in place of directory": {ann, []haft.CallFile{{ID: f.ID, Path: "a"}, {ID: f.ID, Path: "a/b"}},
			haft.CodeInvalid},
		"too many":             {ann, make([]haft.CallFile, 65), haft.CodeInvalid},
		"code of Node":         {ann, []haft.CallFile{{ID: f.ID, Path: "node_modules/x/index.js"}}, haft.CodeInvalid},
		"settings of programs": {ann, []haft.CallFile{{ID: f.ID, Path: "a/.curlrc"}}, haft.CodeInvalid},
		"settings of Node":     {ann, []haft.CallFile{{ID: f.ID, Path: "package.json"}}, haft.CodeInvalid},
		"too large": {ann, []haft.CallFile{{Path: "a", Data: make([]byte, 16<<20)}, {Path: "b", Data: []byte("x")}},
			haft.CodeInvalid},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bound, err := s.Bind(t.Context(), authority.Rules{}, test.p, test.list)
			if haft.CodeOf(err) != test.code {
				t.Fatalf("%v, want %q", err, test.code)
			}
			if err == nil {
				files, drop, err := s.Load(t.Context(), authority.Rules{}, test.p, bound)
				check(t, err)
				drop()
				if files[0].Name != bound[0].Path || len(files[0].Data) == 0 {
					t.Errorf("%+v", files[0])
				}
			}
		})
	}
}

// TestStore_keeps_large_artifacts: what is kept of a call has large artifacts as files; the caller
// gets the content and the id.
func TestStore_keeps_large_artifacts(t *testing.T) {
	db, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
	check(t, err)
	defer func() { check(t, db.Close()) }()
	s, large := filestore.New(db, filestore.Config{}), content(8<<20+1)
	res := &haft.Result{Artifacts: []haft.Artifact{{Name: "small", Size: 1, Data: []byte("x")},
		{Name: "dir/large", ContentType: "no type", Size: 8<<20 + 1, Data: large}}}
	kept, err := s.KeepArtifacts(t.Context(), ann, "c_1", res)
	check(t, err)
	if len(res.Artifacts[1].Data) != 8<<20+1 || kept.Artifacts[1].Data != nil || kept.Artifacts[0].File == "" ||
		kept.Artifacts[1].File == "" || res.Artifacts[1].File != kept.Artifacts[1].File {
		t.Fatalf("%+v", kept.Artifacts)
	}
	f, err := s.Get(t.Context(), "acme", kept.Artifacts[1].File)
	check(t, err)
	got, err := s.Content(t.Context(), *f)
	check(t, err)
	if f.Name != "large" || f.Call != "c_1" || !bytes.Equal(got, large) {
		t.Errorf("%+v", f)
	}
}

func TestStore_names(t *testing.T) {
	db, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
	check(t, err)
	defer func() { check(t, db.Close()) }()
	s := filestore.New(db, filestore.Config{})
	for _, name := range []string{"", ".", "..", "a/b", "a\x00", "a\nb", "\xff", strings.Repeat("a", 256)} {
		_, err := s.Add(t.Context(), ann, haft.NewFile{Name: name}, "", nil)
		wantCode(t, err, haft.CodeInvalid)
	}
	_, err = s.Add(t.Context(), ann, haft.NewFile{Name: "a", ContentType: "no type"}, "", nil)
	wantCode(t, err, haft.CodeInvalid)
}
