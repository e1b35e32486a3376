package builtin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A provider is one API for searching.
type provider struct {
	name   string
	url    string // where its API begins, unless the configuration says so
	keyVar string // the variable of its key; "" if it needs none
	path   string
	most   int // results of one search
	// header and prefix are how a key is sent.
	header, prefix string
	// can are the options that it has. Others are refused, never ignored: the results would not be those asked for.
	can []string
	// categories are those that it has, with its own names for them.
	categories map[string]string
	// query returns the parameters of a GET request, body the body of a POST request. A
	// provider has one of them.
	query func(in searchIn) url.Values
	body  func(in searchIn) map[string]any
}

// The options that not every provider has, by their names as arguments.
const (
	optInclude  = "include_domains"
	optExclude  = "exclude_domains"
	optStart    = "start_published_date"
	optEnd      = "end_published_date"
	optText     = "include_text"
	optSummary  = "include_summary"
	optLocation = "user_location"
	optCategory = "category"
)

// searchCategories are the categories of web_search, which are those of Letta and Exa.
func searchCategories() []string {
	return []string{"company", "research paper", "news", "pdf", "github", "tweet", "personal site", "linkedin profile",
		"financial report"}
}

// providers are the known ones. Those with a key come in the order in which a key of the caller chooses one.
func providers() []provider {
	all := map[string]string{}
	for _, c := range searchCategories() {
		all[c] = c
	}
	return []provider{
		{
			name: "exa", url: "https://api.exa.ai", keyVar: "EXA_API_KEY", path: "/search", most: maxResults,
			header: "X-Api-Key", body: exaBody, categories: all,
			can: []string{optInclude, optExclude, optStart, optEnd, optText, optSummary, optLocation},
		},
		{
			name: "tavily", url: "https://api.tavily.com", keyVar: "TAVILY_API_KEY", path: "/search", most: 20,
			header: "Authorization", prefix: "Bearer ", body: tavilyBody, categories: map[string]string{"news": "news"},
			can: []string{optInclude, optExclude, optStart, optEnd, optText},
		},
		{
			name: "brave", url: "https://api.search.brave.com", keyVar: "BRAVE_API_KEY", path: "/res/v1/web/search",
			most: 20, header: "X-Subscription-Token", query: braveQuery,
			can: []string{optInclude, optExclude, optStart, optEnd, optLocation},
		},
		{
			name: "searxng", path: "/search", most: 20,
			header: "Authorization", prefix: "Bearer ", // of a gateway in front of it
			categories: map[string]string{"news": "news", "research paper": "science"},
			query: func(in searchIn) url.Values {
				q := url.Values{"q": {in.Query}, "format": {"json"}}
				if in.Category != "" {
					q.Set("categories", in.Category)
				}
				return q
			},
		},
	}
}

// setIf sets a field of a body unless the value is zero.
func setIf[T comparable](to map[string]any, name string, v T) {
	if v != *new(T) {
		to[name] = v
	}
}

// exaBody is the request of Exa.
func exaBody(in searchIn) map[string]any {
	text := maxResultText
	if in.IncludeText {
		text = maxFullText
	}
	contents := map[string]any{"text": map[string]any{"maxCharacters": text}}
	if in.IncludeSummary {
		contents["summary"] = map[string]any{}
	}
	body := map[string]any{"query": in.Query, "numResults": in.MaxResults, "type": "auto", "contents": contents}
	setIf(body, "category", in.Category)
	setIf(body, "startPublishedDate", in.Start)
	setIf(body, "endPublishedDate", in.End)
	setIf(body, "userLocation", in.Location)
	if len(in.Include) > 0 {
		body["includeDomains"] = in.Include
	}
	if len(in.Exclude) > 0 {
		body["excludeDomains"] = in.Exclude
	}
	return body
}

// tavilyBody is the request of Tavily.
func tavilyBody(in searchIn) map[string]any {
	body := map[string]any{"query": in.Query, "max_results": in.MaxResults}
	setIf(body, "topic", in.Category)
	setIf(body, "start_date", in.Start)
	setIf(body, "end_date", in.End)
	if in.IncludeText {
		body["include_raw_content"] = "text"
	}
	if len(in.Include) > 0 {
		body[optInclude] = in.Include
	}
	if len(in.Exclude) > 0 {
		body[optExclude] = in.Exclude
	}
	return body
}

// braveQuery is the request of Brave, which has domains as words of the query.
func braveQuery(in searchIn) url.Values {
	words := []string{in.Query}
	if len(in.Include) > 0 {
		words = append(words, "(site:"+strings.Join(in.Include, " OR site:")+")")
	}
	for _, d := range in.Exclude {
		words = append(words, "-site:"+d)
	}
	q := url.Values{"q": {strings.Join(words, " ")}, "count": {strconv.Itoa(in.MaxResults)}}
	if in.Start != "" || in.End != "" {
		q.Set("freshness", cmp.Or(in.Start, "1970-01-01")+"to"+cmp.Or(in.End, time.Now().UTC().Format(time.DateOnly)))
	}
	if in.Location != "" {
		q.Set("country", in.Location)
	}
	return q
}

// request returns the request for a query.
func (p provider) request(ctx context.Context, key string, in searchIn) (*http.Request, error) {
	method, at, body := http.MethodGet, p.url+p.path, []byte(nil)
	if p.body != nil {
		method = http.MethodPost
		var err error
		if body, err = json.Marshal(p.body(in)); err != nil {
			return nil, err
		}
	} else {
		at += "?" + p.query(in).Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if p.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set(p.header, p.prefix+key)
	}
	req.Header.Set("User-Agent", "Haft/1 (web_search)")
	req.Header.Set("Accept", "application/json")
	return req, nil
}

// An answer is the answer of any provider. Each has its own names for the same things.
type answer struct {
	Results []answerResult
	Web     struct{ Results []answerResult } // of Brave
}

// An answerResult is one page of an answer.
type answerResult struct {
	Title, URL, Author         string
	Content, Text, Description string
	Summary                    string
	Raw                        string   `json:"raw_content"`
	Extra                      []string `json:"extra_snippets"`
	PublishedDate              string   `json:"publishedDate"`
	Published                  string   `json:"published_date"`
	PageAge                    string   `json:"page_age"`
	Age                        string
}

// result returns the page as the tool shows it, with so many characters of text.
func (r answerResult) result(chars int) searchResult {
	text := cmp.Or(r.Raw, r.Content, r.Text, r.Description)
	return searchResult{
		Title: snippet(r.Title, maxTitle), URL: r.URL,
		Text:      snippet(strings.Join(slices.Insert(r.Extra, 0, text), " … "), chars),
		Summary:   snippet(r.Summary, maxResultText),
		Published: snippet(cmp.Or(r.PublishedDate, r.Published, r.PageAge, r.Age), 100),
		Author:    snippet(r.Author, 200),
	}
}
