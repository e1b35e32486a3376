// Package pdftext reads the text of PDF files that nobody trusts.
//
// The parser is PDFium, compiled to WebAssembly and run by wazero. Each file gets an instance of its own, with bounded
// memory, no files, no network and no environment. What a hostile file does to the parser stays in that instance, which
// is ended when its time is over.
package pdftext

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"haft"
)

// Bounds of a file.
const (
	MaxBytes  = 20 << 20
	maxPages  = 500
	maxTime   = 20 * time.Second // of reading, without the time until an instance is free
	maxAtOnce = 2
	maxWaits  = 4                      // files of an organisation that wait in memory until another one is read
	maxMemory = 256 << 20 / (64 << 10) // of one instance, in pages of WebAssembly
)

// A Text is the text of a file.
type Text struct {
	Title, Content string
	// Pages is how many pages the file has, and Read of how many Content has the text.
	Pages, Read int
}

// A Reader reads files. The zero value is ready; it prepares the parser for the first file, which takes seconds. It is
// safe for concurrent use.
type Reader struct {
	// Interpret runs the parser slowly, and prepares it quickly: for tests.
	Interpret bool
	// Time bounds the reading of one file; 0 means 20 seconds.
	Time time.Duration

	mu   sync.Mutex
	pool pdfium.Pool

	turns sync.Mutex
	busy  map[string]chan struct{} // by organisation whose file is read; closed when that is over
	waits map[string]int           // by organisation, how many of its files wait
}

// enter waits until no other file of an organisation is read, so that none has all places. Leave when it is over. Files
// that wait are in memory: if there are too many it returns [haft.CodeRateLimited].
func (r *Reader) enter(ctx context.Context, org string) (leave func(), err error) {
	for {
		r.turns.Lock()
		other, taken := r.busy[org]
		if !taken {
			if r.busy == nil {
				r.busy = map[string]chan struct{}{}
			}
			over := make(chan struct{})
			r.busy[org] = over
			r.turns.Unlock()
			return func() {
				r.turns.Lock()
				defer r.turns.Unlock()
				delete(r.busy, org)
				close(over)
			}, nil
		}
		if r.waits[org] >= maxWaits {
			r.turns.Unlock()
			return nil, &haft.Error{Code: haft.CodeRateLimited,
				Message: "too many PDF files of the organisation wait to be read: try again later"}
		}
		if r.waits == nil {
			r.waits = map[string]int{}
		}
		r.waits[org]++
		r.turns.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		r.turns.Lock()
		if r.waits[org]--; r.waits[org] == 0 {
			delete(r.waits, org)
		}
		r.turns.Unlock()
		if err != nil {
			return nil, err
		}
	}
}

// open prepares the parser.
func (r *Reader) open() (pdfium.Pool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pool != nil {
		return r.pool, nil
	}
	cfg := wazero.NewRuntimeConfig()
	if r.Interpret {
		cfg = wazero.NewRuntimeConfigInterpreter()
	}
	pool, err := webassembly.Init(webassembly.Config{
		MaxTotal: maxAtOnce, FSConfig: wazero.NewFSConfig(), Stdout: io.Discard, Stderr: io.Discard,
		// An instance that is closed stops at the next call or loop, and not when it likes.
		RuntimeConfig: cfg.WithMemoryLimitPages(maxMemory).WithCloseOnContextDone(true),
	})
	if err != nil {
		return nil, fmt.Errorf("prepare the reader of PDF files: %w", err)
	}
	r.pool = pool
	return pool, nil
}

// Close ends the parser.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pool == nil {
		return nil
	}
	err := r.pool.Close()
	r.pool = nil
	return err
}

// Text returns the text of a file of an organisation, at most about so many characters of it. A file that cannot be
// read is an [*haft.Error] with [haft.CodeInvalid]. The files of one organisation are read one after the other.
func (r *Reader) Text(ctx context.Context, org string, data []byte, chars int) (Text, error) {
	if len(data) > MaxBytes {
		return Text{}, invalid(fmt.Sprintf("the PDF is larger than %d bytes", MaxBytes), nil)
	}
	leave, err := r.enter(ctx, org)
	if err != nil {
		return Text{}, err
	}
	defer leave()
	pool, err := r.open()
	if err != nil {
		return Text{}, err
	}
	in, err := pool.GetInstanceWithContext(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return Text{}, context.Cause(ctx)
		}
		return Text{}, fmt.Errorf("start the reader of PDF files: %w", err)
	}
	module, err := moduleOf(in)
	defer end(ctx, in, module)
	if err != nil {
		return Text{}, err
	}
	limit := maxTime
	if r.Time > 0 {
		limit = r.Time
	}
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var ended sync.WaitGroup
	ended.Add(1)
	stop := context.AfterFunc(timed, func() {
		defer ended.Done()
		_ = module.CloseWithExitCode(context.WithoutCancel(ctx), 1) // the call that it ends has the error
	})
	text, err := read(timed, in, data, chars)
	if !stop() {
		ended.Wait()
	}
	switch {
	case ctx.Err() != nil:
		return Text{}, context.Cause(ctx)
	case err != nil && timed.Err() != nil && text.Read == 0:
		return Text{}, invalid(fmt.Sprintf("the PDF takes longer than %s to read", limit), nil)
	case err != nil && text.Read == 0:
		return Text{}, err
	}
	return text, nil
}

// end ends an instance. Its WebAssembly goes first, because the library closes the file by it, which nothing bounds:
// what a file made of the parser could run on for ever.
func end(ctx context.Context, in io.Closer, module api.Module) {
	if module != nil {
		_ = module.CloseWithExitCode(context.WithoutCancel(ctx), 1) // nothing of the instance is used any more
	}
	_ = in.Close() // which cannot close the file now
}

// moduleOf returns the instance of WebAssembly behind an instance of PDFium. Only that can be ended safely by another
// goroutine than the one that uses it: Kill of the library writes what that one reads.
func moduleOf(in pdfium.Pdfium) (api.Module, error) {
	v := reflect.Indirect(reflect.ValueOf(in.GetImplementation()))
	if v.Kind() == reflect.Struct {
		if f := v.FieldByName("Module"); f.IsValid() && f.CanInterface() {
			if m, ok := f.Interface().(api.Module); ok {
				return m, nil
			}
		}
	}
	return nil, errors.New("the reader of PDF files cannot be stopped, so it is not started")
}

// invalid is the error about a file.
func invalid(message string, err error) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: message + "; try another source", Err: err}
}

// read reads page by page, until there is enough text or an error. The text before an error counts.
func read(ctx context.Context, in pdfium.Pdfium, data []byte, chars int) (Text, error) {
	var text Text
	doc, err := in.OpenDocument(&requests.OpenDocument{File: &data})
	if err != nil {
		return text, invalid("the PDF cannot be read: it is damaged, or needs a password", err)
	}
	count, err := in.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: doc.Document})
	if err != nil {
		return text, invalid("the pages of the PDF cannot be counted", err)
	}
	text.Pages = count.PageCount
	if title, err := in.FPDF_GetMetaText(&requests.FPDF_GetMetaText{Document: doc.Document, Tag: "Title"}); err == nil {
		text.Title = title.Value
	}
	var b strings.Builder
	for i := 0; i < min(text.Pages, maxPages) && b.Len() < chars && ctx.Err() == nil; i++ {
		page, err := readPage(in, doc.Document, i, chars)
		if err != nil {
			text.Content = b.String()
			return text, err
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(page)
		text.Read++
	}
	text.Content = b.String()
	return text, nil
}

// readPage returns the text of a page, at most so many characters of it.
func readPage(in pdfium.Pdfium, doc references.FPDF_DOCUMENT, index, chars int) (string, error) {
	fail := func(err error) (string, error) {
		return "", invalid(fmt.Sprintf("page %d of the PDF cannot be read", index+1), err)
	}
	page, err := in.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: doc, Index: index})
	if err != nil {
		return fail(err)
	}
	words, err := in.FPDFText_LoadPage(&requests.FPDFText_LoadPage{
		Page: requests.Page{ByReference: &page.Page}})
	if err != nil {
		return fail(err)
	}
	n, err := in.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: words.TextPage})
	if err != nil {
		return fail(err)
	}
	text := ""
	if n.Count > 0 { // more than are there are never asked for, whatever the instance says
		got, err := in.FPDFText_GetText(&requests.FPDFText_GetText{TextPage: words.TextPage,
			Count: min(n.Count, chars)})
		if err != nil {
			return fail(err)
		}
		text = strings.ReplaceAll(strings.ToValidUTF8(got.Text, "\uFFFD"), "\r\n", "\n")
	}
	if _, err := in.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: words.TextPage}); err != nil {
		return fail(err)
	}
	if _, err := in.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: page.Page}); err != nil {
		return fail(err)
	}
	return strings.Trim(text, "\x00"), nil
}
