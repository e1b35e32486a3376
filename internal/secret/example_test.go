package secret_test

import (
	"fmt"
	"os"

	"haft/internal/secret"
)

func ExampleRedactor() {
	r := secret.NewRedactor(secret.Config{
		Values:  []secret.Named{{Name: "API_KEY", Value: secret.New("s3cr3t/key")}},
		Formats: true,
	})
	fmt.Println(r.Text("https://api.example/?key=s3cr3t%2Fkey"))
	fmt.Println(r.Text("login with password=hunter22"))

	s := r.NewStream(func(p []byte) { os.Stdout.Write(p) })
	for _, part := range []string{"the key is s3c", "r3t\\/k", "ey, really\n"} {
		_, _ = s.Write([]byte(part))
	}
	_ = s.Close()
	// Output:
	// https://api.example/?key=[redacted:API_KEY]
	// login with password=[redacted:password]
	// the key is [redacted:API_KEY], really
}

func ExampleNames() {
	var names *secret.Names
	fmt.Println(names.Sensitive("clientSecret"), names.Sensitive("max_tokens"))
	out, _, err := names.Redact([]byte(`{"user":"jo","password":"hunter2"}`))
	fmt.Println(string(out), err)
	// Output:
	// true false
	// {"user":"jo","password":"[redacted]"} <nil>
}
