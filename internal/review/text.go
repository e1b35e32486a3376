package review

import (
	"math"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// maxLine is the longest line that a person reads, in characters.
const maxLine = 2000

// reviewText looks at a source as text: at what is there and cannot be seen.
func reviewText(n *notes, source string) {
	if !utf8.ValidString(source) {
		n.add(ruleUnreadable, 1+strings.Count(source[:invalidAt(source)], "\n"))
	}
	line := 0
	for text := range strings.Lines(source) {
		if line++; n.stopped() {
			return
		}
		text = strings.TrimRight(text, "\r\n")
		if len(text) > maxLine && utf8.RuneCountInString(text) > maxLine {
			n.add("source-long-line", line)
		}
		if line == 1 {
			text = strings.TrimPrefix(text, "\ufeff") // a byte order mark may begin a file
		}
		reviewRunes(n, text, line)
		for _, run := range encodedRun().FindAllString(text, -1) {
			if isEncoded(run) {
				n.add(ruleEncoded, line)
			}
		}
	}
}

// invalidAt is where a text stops being UTF-8.
func invalidAt(s string) int {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(s)
}

// reviewRunes looks for characters that mislead: CVE-2021-42574 (Trojan Source).
func reviewRunes(n *notes, text string, line int) {
	previous := rune(0)
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf && r >= ' ' && r != 0x7f, r == '\t', r == '\f':
		case r < ' ', r >= 0x7f && r < 0xa0:
			n.add("source-control", line)
		case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x061c:
			n.add("source-bidi", line)
		case r == 0x200d && takesJoiner(previous), r >= 0xfe00 && r <= 0xfe0f && takesJoiner(previous):
			// part of an emoji or of a word in a script that joins
		case invisible(r):
			n.add("source-invisible", line)
		}
		previous = r
	}
}

// takesJoiner reports whether a joiner or selector after r is how people write.
func takesJoiner(r rune) bool {
	return r > 0x2000 && (unicode.Is(unicode.So, r) || unicode.Is(unicode.Sk, r) || unicode.Is(unicode.Sm, r) ||
		r == 0xfe0f || r == 0x203c) ||
		unicode.In(r, unicode.Arabic, unicode.Devanagari, unicode.Bengali, unicode.Malayalam, unicode.Sinhala,
			unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Gujarati)
}

// invisible reports whether r leaves no mark.
func invisible(r rune) bool {
	switch r {
	case 0x00ad, 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180e, 0x3164, 0xfeff, 0xffa0:
		return true
	}
	return r >= 0x200b && r <= 0x200f || r >= 0x2060 && r <= 0x2064 || r >= 0x206a && r <= 0x206f ||
		r >= 0xfff9 && r <= 0xfffb || r >= 0xe0000 && r <= 0xe0fff || r >= 0x1d173 && r <= 0x1d17a
}

// minEncoded is how long an encoded text is that hides something. A key, a digest
// or a small picture is shorter.
const minEncoded = 512

// encodedRun finds what may be base64, hexadecimal or escapes.
var encodedRun = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:\\x[0-9a-fA-F]{2}){64,}|(?:\\u[0-9a-fA-F]{4}){64,}|[A-Za-z0-9+/=_\-]{512,}`)
})

// isEncoded reports whether text is encoded data of an unknown format. Pictures and fonts in
// base64 are known by their first bytes.
func isEncoded(text string) bool {
	if strings.HasPrefix(text, `\`) {
		return true
	}
	if contains(text[:min(len(text), 40)], "iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "PHN2Zy", "PD94bWwg", "d09GMg",
		"d09GRg", "JVBERi0", "AAABAA") {
		return false
	}
	e := entropy(text)
	hex := strings.Trim(text, "0123456789abcdefABCDEF") == ""
	return len(text) >= minEncoded && (e >= 4.5 || hex && e >= 3.2)
}

// entropy is the bits of information in a character of text.
func entropy(text string) float64 {
	var count [256]int
	for i := range len(text) {
		count[text[i]]++
	}
	e := 0.0
	for _, c := range count {
		if c > 0 {
			p := float64(c) / float64(len(text))
			e -= p * math.Log2(p)
		}
	}
	return e
}

// mixesScripts reports whether a part of a name, between underscores and digits, mixes
// Latin letters with those of another script that look like them. Greek letters
// that look like nothing else are how formulas are written.
func mixesScripts(name string) bool {
	for _, part := range strings.FieldsFunc(name, func(r rune) bool {
		return r == '_' || r == '$' ||
			unicode.IsDigit(r)
	}) {
		latin, other := false, false
		for _, r := range part {
			latin = latin || unicode.Is(unicode.Latin, r)
			other = other || unicode.In(r, unicode.Cyrillic, unicode.Cherokee, unicode.Armenian, unicode.Lisu,
				unicode.Coptic, unicode.Deseret) ||
				strings.ContainsRune("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧνοϲϳ", r)
		}
		if latin && other {
			return true
		}
	}
	return false
}

// A stringPattern is a text that no honest string holds, or few do.
type stringPattern struct{ rule, pattern string }

// stringPatterns are looked for in strings of programs and words of shells, never
// in comments. They are read by RE2 and by Python's re, so they use what both
// have, and nothing that makes the latter slow.
func stringPatterns() []stringPattern {
	return []stringPattern{
		{"string-credentials",
			`(?:^|/)\.ssh/id_[a-z0-9]+$|(?:^|/)\.(?:aws/credentials|git-credentials|netrc|pypirc|npmrc|pgpass|my\.cnf|kube/config|docker/config\.json|azure/accessTokens\.json|config/gcloud)|/Login Data$|^/etc/g?shadow\b|^/run/secrets/kubernetes|/var/run/secrets/kubernetes\.io|/run/docker\.sock`},
		{"string-persistence",
			`\.ssh/authorized_keys|^authorized_keys$|^/etc/(?:sudoers|cron|ld\.so\.preload|rc\.local|profile|systemd/system/|init\.d/|pam\.d/)|^/var/spool/cron|(?:^|/)\.(?:bashrc|bash_profile|zshrc|profile|bash_login|config/autostart)$|/Library/LaunchAgents`},
		{"string-process",
			`^/proc/(?:self|[0-9]+|\*|\{[^}]*\}|%[sd]|\$\{?[a-zA-Z_]+\}?|thread-self)/(?:environ|mem|maps|fd/|cmdline|root|cwd|ns/|task/)|^/proc/kcore|^/dev/fd/3$|^/proc/(?:self|[0-9]+)/fd$`},
		{"string-device",
			`^/dev/(?:mem|kmem|port|kmsg|sd[a-z][0-9]*|nvme[0-9].*|vd[a-z][0-9]*|xvd[a-z].*|loop[0-9]+|disk/.*)$`},
		{"string-metadata",
			`169\.254\.169\.254|169\.254\.170\.2\b|metadata\.google\.internal|100\.100\.100\.200|fd00:ec2::254|0xa9fea9fe|(?:^|/)2852039166\b|metadata\.azure\.com|(?:^|/)0251\.0376\.0251\.0376`},
		{"string-miner",
			`stratum\+(?:tcp|ssl|udp)://|(?i:\bxmrig\b|\bcoinhive\b|\bcryptonight\b|\bminerd\b|minexmr\.com|nanopool\.org|supportxmr\.com|moneroocean\.stream|\bcpuminer\b|\bnicehash\.com)`},
		{"string-introspection", `__subclasses__|__globals__|__builtins__`},
		{"string-shell", `/dev/tcp/.* 0[<>]&|\b(?:ba)?sh -i *[>0-9]*&|\bnc(?:at)? (?:-[a-z]+ )*-e\b|socat .*EXEC:`},
	}
}

// stringMatchers are the patterns, compiled.
var stringMatchers = sync.OnceValue(func() []matcher {
	var all []matcher
	for _, s := range stringPatterns() {
		all = append(all, matcher{Regexp: regexp.MustCompile(s.pattern), rule: s.rule})
	}
	return all
})

// reviewString looks at what a string of a program says.
func reviewString(n *notes, text string, line int) {
	if len(text) < 5 {
		return
	}
	for _, m := range stringMatchers() {
		if m.MatchString(text) {
			n.add(m.rule, line)
		}
	}
	if len(text) >= minEncoded && !strings.ContainsAny(text, " \n\t") && isEncoded(text) {
		n.add(ruleEncoded, line)
	}
}
