package auth_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/auth"
)

// Attacks with API keys.
func TestAttack_keys(t *testing.T) {
	w := setup(t)
	yes, soon := true, time.Now().Add(time.Hour)
	_, theirs, err := w.ring.NewAdminKey(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	disabled, disabledKey := w.issue(t, auth.Key{User: "d"})
	removed, removedKey := w.issue(t, auth.Key{User: "r"})
	rotated, rotatedKey := w.issue(t, auth.Key{User: "o", Expires: soon})
	_, signs := w.issue(t, auth.Key{User: "s", SignedOnly: true})
	if _, err := w.ring.Set(t.Context(), w.admin, disabled.ID, auth.KeyState{Disabled: &yes}); err != nil {
		t.Fatal(err)
	}
	if err := w.ring.Remove(t.Context(), w.admin, removed.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.ring.Rotate(t.Context(), w.admin, rotated.ID, 0); err != nil {
		t.Fatal(err)
	}
	// A secret of one key under the id of another, with a checksum that fits.
	swapped := resum(w.key[:18] + theirs.Reveal()[18:58])
	// A hash of somebody else's key, copied over by who can write to the store.
	planted, plantedKey := w.issue(t, auth.Key{User: "p"})
	for _, tt := range []struct {
		name, scheme, token string
		want                auth.Reason
	}{
		{"nothing", "", "", auth.ReasonMissing},
		{"no token", "Bearer", "", auth.ReasonMissing},
		{"another scheme", "Basic", w.key, auth.ReasonScheme},
		{"the scheme of signatures", auth.SchemeSigned, w.key, auth.ReasonMalformed},
		{"the id alone", "Bearer", "haft_" + w.id, auth.ReasonMalformed},
		{"upper case", "Bearer", strings.ToUpper(w.key), auth.ReasonScheme},
		{"a space before", "Bearer", " " + w.key, auth.ReasonScheme},
		{"a space behind", "Bearer", w.key + " ", auth.ReasonMalformed},
		{"a line behind", "Bearer", w.key + "\r\nX-Org: other", auth.ReasonMalformed},
		{"a NUL behind", "Bearer", w.key + "\x00", auth.ReasonMalformed},
		{"two keys", "Bearer", w.key + "," + w.key, auth.ReasonMalformed},
		{"a typing error", "Bearer", w.key[:30] + next32(w.key[30]) + w.key[31:], auth.ReasonMalformed},
		{"a huge key", "Bearer", "haft_" + strings.Repeat("a", 1<<20), auth.ReasonMalformed},
		{"an id with a wildcard", "Bearer", resum("haft_%%%%%%%%%%%%_" + w.key[18:58]), auth.ReasonMalformed},
		{"an unknown key", "Bearer", resum("haft_aaaaaaaaaaaa_" + w.key[18:58]), auth.ReasonUnknown},
		{"a wrong secret", "Bearer", resum(w.key[:18] + strings.Repeat("a", 40)), auth.ReasonWrong},
		{"a secret of another organisation", "Bearer", swapped, auth.ReasonWrong},
		{"a disabled key", "Bearer", disabledKey, auth.ReasonDisabled},
		{"a removed key", "Bearer", removedKey, auth.ReasonUnknown},
		{"a rotated key", "Bearer", rotatedKey, auth.ReasonWrong},
		{"a key that only signs", "Bearer", signs, auth.ReasonUnsigned},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id, err := w.Authenticate(t.Context(), auth.Credential{Scheme: tt.scheme, Token: tt.token, Source: home})
			wantRefused(t, err, tt.want)
			if diff := cmp.Diff(haft.Principal{}, id.Principal); diff != "" {
				t.Errorf("a principal came with it: %s", diff)
			}
			if strings.Contains(err.Error(), "haft_") {
				t.Errorf("the log would hold the key: %v", err)
			}
		})
	}
	t.Run("a proof in the wrong place", func(t *testing.T) {
		from, _ := w.kept.Key(t.Context(), planted.ID)
		to, _ := w.kept.Key(t.Context(), w.id)
		to.Secret = from.Secret
		if err := w.kept.PutKey(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		_, err := w.bearer(t.Context(), resum(w.key[:18]+plantedKey[18:58]))
		wantRefused(t, err, auth.ReasonWrong)
		forged := strings.Replace(header(plantedKey, "GET", "/", "", nonce(), time.Now().Unix()), planted.ID, w.id, 1)
		_, err = w.Admit(received("GET", "/", "", forged), home)
		wantRefused(t, err, auth.ReasonWrong)
	})
}

// next32 returns another character of a key.
func next32(c byte) string {
	if c == 'a' {
		return "b"
	}
	return "a"
}

// resum gives text the checksum of a key.
func resum(text string) string {
	const letters = "abcdefghijklmnopqrstuvwxyz234567"
	crc := uint64(crc(text)) << 3
	for shift := 30; shift >= 0; shift -= 5 {
		text += string(letters[crc>>shift&31])
	}
	return text
}

// The request that attacks on signatures change.
const (
	signedTarget = "/v1/calls?wait=1&x=%2Fa"
	signedBody   = `{"tool":"add"}`
)

// signedHeader signs that request, now.
func signedHeader(key string) string {
	return header(key, "POST", signedTarget, signedBody, nonce(), time.Now().Unix())
}

// Attacks on signed requests: the request is changed and the header is not.
func TestAttack_signed_requests(t *testing.T) {
	w := setup(t)
	for _, tt := range []struct {
		name, method, target string
		want                 auth.Reason
	}{
		{"nothing changed", "POST", signedTarget, ""},
		{"another method", "PUT", signedTarget, auth.ReasonWrong},
		{"the method in lower case", "post", signedTarget, auth.ReasonMalformed},
		{"another path", "POST", "/v1/tools?wait=1&x=%2Fa", auth.ReasonWrong},
		{"the path in another case", "POST", "/v1/Calls?wait=1&x=%2Fa", auth.ReasonWrong},
		{"the path encoded", "POST", "/v1/%63alls?wait=1&x=%2Fa", auth.ReasonWrong},
		{"a dot in the path", "POST", "/v1/./calls?wait=1&x=%2Fa", auth.ReasonWrong},
		{"a way around in the path", "POST", "/v1/x/../calls?wait=1&x=%2Fa", auth.ReasonWrong},
		{"two slashes", "POST", "//v1/calls?wait=1&x=%2Fa", auth.ReasonWrong},
		{"a slash at the end", "POST", "/v1/calls/?wait=1&x=%2Fa", auth.ReasonWrong},
		{"the whole address", "POST", "http://example.com" + signedTarget, auth.ReasonMalformed},
		{"no path", "POST", "", auth.ReasonMalformed},
		{"a line break in the path", "POST", "/v1/calls\n?wait=1&x=%2Fa", auth.ReasonMalformed},
		{"a fragment", "POST", signedTarget + "#x", auth.ReasonMalformed},
		{"another query", "POST", "/v1/calls?wait=0&x=%2Fa", auth.ReasonWrong},
		{"more of a query", "POST", signedTarget + "&org=other", auth.ReasonWrong},
		{"no query", "POST", "/v1/calls", auth.ReasonWrong},
		{"the query in another order", "POST", "/v1/calls?x=%2Fa&wait=1", auth.ReasonWrong},
		{"the query encoded in lower case", "POST", "/v1/calls?wait=1&x=%2fa", auth.ReasonWrong},
		{"the query decoded", "POST", "/v1/calls?wait=1&x=/a", auth.ReasonWrong},
		{"a long path", "POST", "/" + strings.Repeat("a", 1<<20), auth.ReasonMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := received("POST", signedTarget, signedBody, signedHeader(w.key))
			r.Method, r.RequestURI = tt.method, tt.target
			_, err := w.Admit(r, home)
			if tt.want == "" && err == nil {
				return
			}
			wantRefused(t, err, tt.want)
		})
	}
	r := received("POST", signedTarget, signedBody, signedHeader(w.key))
	r.Body = http.NoBody
	_, err := w.Admit(r, home)
	wantRefused(t, err, auth.ReasonBody)
}

// Attacks on signed requests: the header is changed and the request is not.
func TestAttack_signature_headers(t *testing.T) {
	w := setup(t)
	_, other := w.issue(t, auth.Key{User: "o"})
	swap := func(old, by string) func(string) string {
		return func(h string) string {
			if !strings.Contains(h, old) {
				t.Errorf("there is no %q to change", old)
			}
			return strings.Replace(h, old, by, 1)
		}
	}
	// part replaces one part, by its name.
	part := func(name string, by func(string) string) func(string) string {
		return func(h string) string {
			head, rest, _ := strings.Cut(h, name+"=")
			value, tail, more := strings.Cut(rest, ",")
			if head += name + "=" + by(value); more {
				head += "," + tail
			}
			return head
		}
	}
	is := func(value string) func(string) string { return func(string) string { return value } }
	signed := func(nonce string, off int64) func(string) string {
		return func(string) string {
			return header(w.key, "POST", signedTarget, signedBody, nonce, time.Now().Unix()+off)
		}
	}
	for _, tt := range []struct {
		name   string
		change func(string) string
		want   auth.Reason
	}{
		{"another time", part("time", func(s string) string { return s[:9] + next10(s[9]) }), auth.ReasonWrong},
		{"a time in the year 5000", part("time", func(s string) string { return "9" + s }), auth.ReasonWrong},
		{"a time of 12 digits", part("time", func(s string) string { return "99" + s }), auth.ReasonMalformed},
		{"a time with a sign", swap("time=", "time=+"), auth.ReasonMalformed},
		{"a time with a 0", swap("time=", "time=0"), auth.ReasonMalformed},
		{"signed an hour ago", signed(nonce(), -3600), auth.ReasonClock},
		{"signed for later", signed(nonce(), 3600), auth.ReasonClock},
		{"another nonce", swap("nonce=nonce", "nonce=nonse"), auth.ReasonWrong},
		{"a short nonce", signed("short", 0), auth.ReasonMalformed},
		{"a long nonce", signed(strings.Repeat("n", 65), 0), auth.ReasonMalformed},
		{"a nonce with a line", signed("aaaaaaaaaaaaaaaa\nGET", 0), auth.ReasonMalformed},
		{"another key", swap(w.id, other[5:17]), auth.ReasonWrong},
		{"an unknown key", swap(w.id, "aaaaaaaaaaaa"), auth.ReasonUnknown},
		{"signed with the id", is(signedHeader("haft_" + w.id + "_")), auth.ReasonWrong},
		{"another digest", part("body", is(sum("{}"))), auth.ReasonWrong},
		{"a long digest", swap("body=", "body=0"), auth.ReasonMalformed},
		{"a digest in upper case", part("body", strings.ToUpper), auth.ReasonMalformed},
		{"no signature", func(h string) string { return h[:strings.Index(h, ",signature")] }, auth.ReasonMalformed},
		{"an empty signature", part("signature", is("")), auth.ReasonMalformed},
		{"half a signature", part("signature", func(s string) string { return s[:32] }), auth.ReasonMalformed},
		{"a signature of zeros", part("signature", is(strings.Repeat("0", 64))), auth.ReasonWrong},
		{"more behind it", func(h string) string { return h + ",key=x" }, auth.ReasonMalformed},
		{"a part twice", swap("key=", "key=aaaaaaaaaaaa,key="), auth.ReasonMalformed},
		{"the parts in another order", swap("key="+w.id+",time=", "time="+w.id+",key="), auth.ReasonMalformed},
		{"a space between the parts", swap(",time=", ", time="), auth.ReasonMalformed},
		{"a weaker scheme", swap("HAFT-HMAC-SHA256", "HAFT-HMAC-MD5"), auth.ReasonScheme},
		{"two in one header", func(h string) string { return h + ", Bearer " + w.key }, auth.ReasonMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := w.Admit(received("POST", signedTarget, signedBody, tt.change(signedHeader(w.key))), home)
			wantRefused(t, err, tt.want)
		})
	}
}

// next10 returns another digit.
func next10(c byte) string { return string('0' + (c-'0'+1)%10) }

// A credential is in one header and nowhere else.
func TestAttack_places(t *testing.T) {
	w := setup(t)
	for _, tt := range []struct {
		name    string
		target  string
		headers []string
		want    auth.Reason
	}{
		{"the header twice", "/", []string{"Authorization", "Bearer " + w.key, "Authorization", "Bearer " + w.key},
			auth.ReasonScheme},
		{"two credentials", "/", []string{"Authorization", "Bearer nonsense", "authorization", "Bearer " + w.key},
			auth.ReasonScheme},
		{"an empty header beside it", "/", []string{"Authorization", "", "Authorization", "Bearer " + w.key},
			auth.ReasonScheme},
		{"the address", "/?access_token=" + w.key, nil, auth.ReasonMissing},
		{"a cookie", "/", []string{"Cookie", "Authorization=" + w.key}, auth.ReasonMissing},
		{"the proxy's header", "/", []string{"Proxy-Authorization", "Bearer " + w.key}, auth.ReasonMissing},
		{"a forwarded header", "/", []string{"X-Forwarded-Authorization", "Bearer " + w.key}, auth.ReasonMissing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := received("GET", tt.target, "", "")
			r.Header.Del("Authorization")
			for i := 0; i < len(tt.headers); i += 2 {
				r.Header.Add(tt.headers[i], tt.headers[i+1])
			}
			_, err := w.Admit(r, home)
			wantRefused(t, err, tt.want)
		})
	}
}

func sum(body string) string {
	_, rest, _ := strings.Cut(header("haft_x_", "", "", body, "", 0), "body=")
	return rest[:64]
}

func TestAttack_replay(t *testing.T) {
	w := setup(t)
	_, second := w.issue(t, auth.Key{User: "o"})
	n, now := nonce(), time.Now().Unix()
	admit := func(body, authorization string) error {
		r := received("POST", "/", body, authorization)
		if _, err := w.Admit(r, home); err != nil {
			return err
		}
		_, err := io.ReadAll(r.Body)
		return err
	}
	// Somebody without the key cannot use up a nonce.
	wantRefused(t, admit("a", header(second[:5]+w.id+second[17:], "POST", "/", "a", n, now)), auth.ReasonWrong)
	if err := admit("a", header(w.key, "POST", "/", "a", n, now)); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, admit("a", header(w.key, "POST", "/", "a", n, now)), auth.ReasonReplay)
	wantRefused(t, admit("b", header(w.key, "POST", "/", "b", n, now)), auth.ReasonReplay)
	wantRefused(t, admit("a", header(w.key, "POST", "/", "a", n, now+1)), auth.ReasonReplay)
	if err := admit("a", header(second, "POST", "/", "a", n, now)); err != nil {
		t.Errorf("the nonce of another key: %v", err)
	}
	// The body is swapped on the way.
	wantRefused(t, admit("evil", header(w.key, "POST", "/", "good", nonce(), now)), auth.ReasonBody)
	wantRefused(t, admit("good and more", header(w.key, "POST", "/", "good", nonce(), now)), auth.ReasonBody)
	// Requests in another order than they were signed in are good: they are many.
	late, early := header(w.key, "POST", "/", "", nonce(), now+1), header(w.key, "POST", "/", "", nonce(), now)
	for _, h := range []string{late, early} {
		if err := admit("", h); err != nil {
			t.Errorf("out of order: %v", err)
		}
	}
}

// A refusal takes the same steps for every key that is not good, and for a good
// one. That these take no longer for one than for another is up to crypto/subtle.
func TestSteps_do_not_depend_on_the_key(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		yes := true
		_, expired := w.issue(t, auth.Key{User: "e", Expires: time.Now().Add(time.Minute)})
		disabled, disabledKey := w.issue(t, auth.Key{User: "d"})
		rotated, rotatedKey := w.issue(t, auth.Key{User: "r"})
		if _, err := w.ring.Set(t.Context(), w.admin, disabled.ID, auth.KeyState{Disabled: &yes}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.ring.Rotate(t.Context(), w.admin, rotated.ID, time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		var steps []string
		w.ring.Watch(func(name string) { steps = append(steps, name) })
		for _, kind := range []string{"bearer", "signed"} {
			want := []string{"find", "hash", "compare", "compare"}
			if kind == "signed" {
				want = []string{"find", "open", "mac", "compare", "open", "mac", "compare"}
			}
			for name, key := range map[string]string{
				"good": w.key, "unknown": resum("haft_aaaaaaaaaaaa_" + w.key[18:58]),
				"wrong":   resum(w.key[:18] + strings.Repeat("a", 40)),
				"expired": expired, "disabled": disabledKey, "rotated": rotatedKey,
			} {
				steps = nil
				c := auth.Credential{Scheme: "Bearer", Token: key, Source: home}
				if kind == "signed" {
					c = auth.CredentialOf(received("GET", "/", "",
						header(key, "GET", "/", "", nonce(), time.Now().Unix())), home)
				}
				_, err := w.Authenticate(t.Context(), c)
				if (err == nil) != (name == "good") {
					t.Errorf("%s, %s: %v", kind, name, err)
				}
				if diff := cmp.Diff(want, steps); diff != "" {
					t.Errorf("the steps of a key that is %s, %s (-want +got):\n%s", name, kind, diff)
				}
			}
		}
	})
}

func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, func(c *auth.Config) {
			c.Attempts = auth.Attempts{Failures: 3, Every: 10 * time.Second, Sources: 100}
		})
		try := func(from, key string) error {
			_, err := w.Authenticate(t.Context(), auth.Credential{Scheme: "Bearer", Token: key,
				Source: netip.MustParseAddr(from)})
			return err
		}
		bad := resum("haft_aaaaaaaaaaaa_" + w.key[18:58])
		for range 1000 {
			if err := try("192.0.2.9", w.key); err != nil {
				t.Fatalf("good keys are counted: %v", err)
			}
		}
		for range 3 {
			wantRefused(t, try("192.0.2.9", bad), auth.ReasonUnknown)
		}
		for _, key := range []string{bad, "nonsense"} {
			err := try("192.0.2.9", key)
			wantCode(t, "the fourth", err, haft.CodeRateLimited)
			if e, ok := errors.AsType[*haft.Error](err); !ok || e.RetryAfter.D() != 10*time.Second {
				t.Errorf("come back after: %v", err)
			}
		}
		for _, from := range []string{"192.0.2.10", "192.0.2.9", "::ffff:192.0.2.9"} {
			if err := try(from, w.key); err != nil {
				t.Errorf("a good key from %s, beside bad ones: %v", from, err)
			}
		}
		wantRefused(t, try("192.0.2.10", bad), auth.ReasonUnknown)
		wantCode(t, "the same address in IPv6", try("::ffff:192.0.2.9", bad), haft.CodeRateLimited)
		time.Sleep(10*time.Second - 1)
		wantCode(t, "too early", try("192.0.2.9", bad), haft.CodeRateLimited)
		time.Sleep(time.Nanosecond)
		wantRefused(t, try("192.0.2.9", bad), auth.ReasonUnknown)
		wantCode(t, "one more was given back, and no more", try("192.0.2.9", bad), haft.CodeRateLimited)
		time.Sleep(30 * time.Second)
		for range 3 {
			wantRefused(t, try("192.0.2.9", bad), auth.ReasonUnknown)
		}
		// One network of IPv6 is one source.
		for i := range 3 {
			wantRefused(t, try(fmt.Sprintf("2001:db8::%x", i+1), bad), auth.ReasonUnknown)
		}
		wantCode(t, "the same network", try("2001:db8::ffff:1", bad), haft.CodeRateLimited)
		if err := try("2001:db8:0:1::1", w.key); err != nil {
			t.Errorf("another network: %v", err)
		}
		for i := range 5000 {
			_ = try(fmt.Sprintf("10.%d.%d.1", i/256, i%256), bad)
		}
		if n := w.Sources(); n != 100 {
			t.Errorf("%d sources are kept, want 100", n)
		}
	})
}
