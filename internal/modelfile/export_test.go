package modelfile

import "net/http"

// HTTPClient returns the client that asks models, and whether it uses the proxies of the environment.
func HTTPClient() (*http.Client, bool) {
	c := httpClient()
	t, ok := c.Transport.(*http.Transport)
	return c, ok && t.Proxy != nil
}
