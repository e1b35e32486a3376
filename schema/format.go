package schema

import (
	"errors"
	"net/mail"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Some formats are taken more widely than the library takes them, because values
// as people, models and Pydantic write them would not pass: moments and times
// without an offset or without seconds, durations with a sign or a fraction, UUIDs
// without hyphens, and e-mail addresses beyond ASCII.
var formats = []*jsonschema.Format{
	{Name: "date-time", Validate: onText(isDateTime)},
	{Name: "time", Validate: onText(isTime)},
	{Name: "duration", Validate: onText(isDuration)},
	{Name: "email", Validate: onText(isEmail)},
	{Name: "uuid", Validate: onText(isUUID)},
}

// errFormat is never shown: messages are ours.
var errFormat = errors.New("not of the format")

// onText makes a validator of a format: it is for strings only.
func onText(ok func(string) bool) func(any) error {
	return func(v any) error {
		if s, isText := v.(string); isText && !ok(s) {
			return errFormat
		}
		return nil
	}
}

// isDuration accepts ISO 8601 durations of at least one part.
func isDuration(s string) bool {
	return duration().MatchString(s) && !strings.HasSuffix(s, "P") && !strings.HasSuffix(s, "T")
}

// duration is ISO 8601, but for the need of at least one part.
var duration = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^[+-]?P(\d+(\.\d+)?Y)?(\d+(\.\d+)?M)?(\d+(\.\d+)?W)?(\d+(\.\d+)?D)?(T(\d+(\.\d+)?H)?(\d+(\.\d+)?M)?(\d+(\.\d+)?S)?)?$`)
})

// uuid is a UUID in the four ways of writing one: with hyphens, without, in braces
// and as a URN.
var uuid = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`(?i)^((urn:uuid:)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|\{[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\})$`)
})

// isUUID accepts all four.
func isUUID(s string) bool { return uuid().MatchString(s) }

// isDateTime accepts RFC 3339 with the seconds or the offset left out, and a space
// for the T.
func isDateTime(s string) bool {
	if len(s) < len("2006-01-02T15:04") {
		return false
	}
	if _, err := time.Parse(time.DateOnly, s[:10]); err != nil || !strings.ContainsRune("Tt ", rune(s[10])) {
		return false
	}
	return isTime(s[11:])
}

// isTime accepts the time of RFC 3339 with the seconds or the offset left out.
func isTime(s string) bool { return clock().MatchString(s) }

// clock is a time of day. A leap second is a moment too.
var clock = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([01]\d|2[0-3]):[0-5]\d(:([0-5]\d|60)(\.\d+)?)?([Zz]|[+-]([01]\d|2[0-3]):?[0-5]\d)?$`)
})

// isEmail accepts one address and nothing around it, also beyond ASCII.
func isEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Name == "" && a.Address == s
}

// formatWords says what a format is, with an example where the name alone does
// not say it.
func formatWords(name string) string {
	switch name {
	case "date-time":
		return "a date and time such as 2026-01-31T10:00:00Z"
	case "date":
		return "a date such as 2026-01-31"
	case "time":
		return "a time such as 10:00:00"
	case "duration":
		return "an ISO 8601 duration such as PT1H30M"
	case "email":
		return "an e-mail address"
	case "uri", "iri":
		return "an absolute URL"
	case "uuid":
		return "a UUID"
	case "ipv4":
		return "an IPv4 address"
	case "ipv6":
		return "an IPv6 address"
	case "regex":
		return "a regular expression (RE2: no look-around, no back-references)"
	}
	return "of the format " + printable(name, maxToken)
}
