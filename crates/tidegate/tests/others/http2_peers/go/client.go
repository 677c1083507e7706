package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strings"
	"sync"
	"time"
)

// clientOf gives a client that speaks what the word says: "h2c" by prior knowledge, "h2" by ALPN, "http1".
func clientOf(protocol, authority string) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(protocol == "http1")
	protocols.SetHTTP2(protocol == "h2")
	protocols.SetUnencryptedHTTP2(protocol == "h2c")
	transport := &http.Transport{Protocols: protocols, DisableCompression: true, MaxIdleConnsPerHost: 64}
	if authority != "" {
		pem, err := os.ReadFile(authority)
		must(err)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	return &http.Client{
		Transport:     transport,
		Timeout:       60 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type target struct {
	client   *http.Client
	base     string
	protocol string
}

func flagsOf(name string, arguments []string, more func(*flag.FlagSet)) target {
	flags := flag.NewFlagSet(name, flag.ExitOnError)
	base := flags.String("url", "", "scheme, host and port")
	protocol := flags.String("protocol", "h2c", "h2c, h2 or http1")
	authority := flags.String("ca", "", "the root to trust")
	more(flags)
	must(flags.Parse(arguments))
	return target{clientOf(*protocol, *authority), *base, *protocol}
}

// load sends many requests of every kind that may be repeated, and checks each body; only failures are told.
func load(arguments []string) {
	var requests, parallel int
	var kinds string
	to := flagsOf("load", arguments, func(flags *flag.FlagSet) {
		flags.IntVar(&requests, "requests", 200, "how many")
		flags.IntVar(&parallel, "parallel", 200, "how many at a time")
		flags.StringVar(&kinds, "kinds", "small,large,upload,head,empty,echo", "which, in turn")
	})
	all := map[string]func(target, int) error{
		"small": small, "large": large, "upload": upload, "form": form, "head": head,
		"empty": empty, "echo": echo, "goaway": goaway,
	}
	chosen := strings.Split(kinds, ",")
	var lock sync.Mutex
	failed := failures{}
	done := 0
	turns := make(chan int)
	var group sync.WaitGroup
	for range parallel {
		group.Go(func() {
			for turn := range turns {
				kind := chosen[turn%len(chosen)]
				err := all[kind](to, turn)
				lock.Lock()
				if err != nil {
					failed[kind+": "+err.Error()]++
				} else {
					done++
				}
				lock.Unlock()
			}
		})
	}
	for turn := range requests {
		turns <- turn
	}
	close(turns)
	group.Wait()
	report(done, failed)
}

// ask does one of each kind that says something about an answer, in turn.
func ask(arguments []string) {
	to := flagsOf("ask", arguments, func(*flag.FlagSet) {})
	kinds := []struct {
		name string
		ask  func(target, int) error
	}{
		{"small", small}, {"middle", middle}, {"large", large}, {"upload", upload}, {"head", head}, {"empty", empty}, {"echo", echo},
		{"trailers", trailers}, {"early", early}, {"hints", hints}, {"broken", broken}, {"cancel", cancel},
		{"abandoned upload", abandonedUpload}, {"goaway", goaway}, {"small again", small},
	}
	failed := failures{}
	done := 0
	for _, kind := range kinds {
		if err := kind.ask(to, 7); err != nil {
			failed[kind.name+": "+err.Error()]++
		} else {
			done++
		}
	}
	report(done, failed)
}

func (to target) do(method, path string, body io.Reader, change func(*http.Request)) (*http.Response, []byte, error) {
	request, err := http.NewRequest(method, to.base+path, body)
	if err != nil {
		return nil, nil, err
	}
	if change != nil {
		change(request)
	}
	response, err := to.client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err == nil && (response.ProtoMajor == 2) != (to.protocol != "http1") {
		err = fmt.Errorf("answered in %s", response.Proto)
	}
	return response, all, err
}

func expect(response *http.Response, status int) error {
	if response.StatusCode != status {
		return fmt.Errorf("status %d instead of %d", response.StatusCode, status)
	}
	return nil
}

func download(to target, count int, query string) error {
	wants := func(request *http.Request) {
		// Over HTTP/1.1 trailers are for those who ask for them (RFC 9110 section 10.1.4).
		if to.protocol == "http1" {
			request.Header.Set("TE", "trailers")
			request.Header.Set("Connection", "TE")
		}
	}
	response, body, err := to.do("GET", fmt.Sprintf("/bytes/%d%s", count, query), nil, wants)
	if err != nil {
		return err
	}
	if err := expect(response, 200); err != nil {
		return err
	}
	expected := digest(bytesOf(count))
	if digest(body) != expected || response.Header.Get("X-Sha256") != expected {
		return fmt.Errorf("other bytes: %d of %d", len(body), count)
	}
	// Behind a body whose length was said HTTP/1.1 has no trailers.
	hasPlace := to.protocol != "http1" || response.ContentLength < 0
	if trailer := response.Trailer.Get("X-Sha256-Trailer"); query == "" && hasPlace && trailer != expected {
		return fmt.Errorf("the trailer is %q", trailer)
	}
	return nil
}

func small(to target, turn int) error { return download(to, turn%2000, "") }

func middle(to target, turn int) error { return download(to, 100_000+turn, "") }

func large(to target, turn int) error { return download(to, 1_000_000+turn, "?length") }

func uploadWith(to target, count int, change func(*http.Request), last string) error {
	body := bytesOf(count)
	response, said, err := to.do("PUT", "/digest", bytes.NewReader(body), change)
	if err != nil {
		return err
	}
	if err := expect(response, 200); err != nil {
		return err
	}
	if expected := fmt.Sprintf("%d %s %s", count, digest(body), last); string(said) != expected {
		return fmt.Errorf("it got %q instead of %q", said, expected)
	}
	return nil
}

func upload(to target, turn int) error { return uploadWith(to, 500_000+turn, nil, "") }

func form(to target, turn int) error { return uploadWith(to, 30_000+turn, nil, "") }

func trailers(to target, turn int) error {
	return uploadWith(to, 3_000_000+turn, func(request *http.Request) {
		request.ContentLength = -1
		request.Trailer = http.Header{"X-Last": {"word"}}
	}, "word")
}

func head(to target, turn int) error {
	response, body, err := to.do("HEAD", fmt.Sprintf("/bytes/%d", turn), nil, nil)
	if err != nil {
		return err
	}
	if response.ContentLength != int64(turn) || len(body) != 0 {
		return fmt.Errorf("%d bytes, said to be %d", len(body), response.ContentLength)
	}
	return expect(response, 200)
}

func empty(to target, turn int) error {
	for _, status := range []int{204, 304} {
		response, body, err := to.do("GET", fmt.Sprintf("/status/%d", status), nil, nil)
		if err != nil {
			return err
		}
		if len(body) != 0 || response.Header.Get("ETag") != `"one"` {
			return fmt.Errorf("%d: %d bytes and %v", status, len(body), response.Header)
		}
		if err := expect(response, status); err != nil {
			return err
		}
	}
	return nil
}

// echo sends the next piece only when the one before has come back: nothing may hold pieces up.
func echo(to target, turn int) error {
	reader, writer := io.Pipe()
	request, err := http.NewRequest("PUT", to.base+"/echo", reader)
	if err != nil {
		return err
	}
	go func() { _, _ = writer.Write([]byte("first")) }()
	response, err := to.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	buffer := make([]byte, 5)
	for _, piece := range []string{"first", "secnd", "third"} {
		if _, err := io.ReadFull(response.Body, buffer); err != nil {
			return err
		}
		if string(buffer) != piece {
			return fmt.Errorf("%q instead of %q", buffer, piece)
		}
		switch piece {
		case "first":
			_, err = writer.Write([]byte("secnd"))
		case "secnd":
			_, err = writer.Write([]byte("third"))
		}
		if err != nil {
			return err
		}
	}
	must(writer.Close())
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) != 0 {
		return fmt.Errorf("%d bytes more, %w", len(rest), err)
	}
	return expect(response, 200)
}

func goaway(to target, _ int) error {
	response, body, err := to.do("GET", "/goaway", nil, nil)
	if err != nil {
		return err
	}
	if string(body) != "goodbye" {
		return fmt.Errorf("it said %q", body)
	}
	return expect(response, 200)
}

// early is answered before its body was read, and the answer has to be heard.
func early(to target, _ int) error {
	response, body, err := to.do("POST", "/early", bytes.NewReader(bytesOf(5_000_000)), nil)
	if err != nil && to.protocol == "http1" {
		// Over HTTP/1.1 the connection ends behind such an answer, and a client that still writes may see no more.
		return nil
	}
	if err != nil {
		return err
	}
	if string(body) != "no such upload" {
		return fmt.Errorf("it said %q", body)
	}
	return expect(response, 403)
}

func hints(to target, _ int) error {
	interim := 0
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		if code == 103 && header.Get("Link") != "" {
			interim++
		}
		return nil
	}}
	response, body, err := to.do("GET", "/hints", nil, func(request *http.Request) {
		*request = *request.WithContext(httptrace.WithClientTrace(request.Context(), trace))
	})
	if err != nil {
		return err
	}
	if string(body) != "hinted" || interim != 1 {
		return fmt.Errorf("%q and %d interim answers", body, interim)
	}
	return expect(response, 200)
}

// broken is reset in the middle by its server: never a whole answer.
func broken(to target, _ int) error {
	_, body, err := to.do("GET", "/broken", nil, nil)
	if err == nil {
		return fmt.Errorf("%d bytes as if they were whole", len(body))
	}
	return nil
}

func cancel(to target, _ int) error {
	ctx, stop := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer stop()
	_, _, err := to.do("GET", "/slow", nil, func(request *http.Request) { *request = *request.WithContext(ctx) })
	if !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("it was not cancelled: %w", err)
	}
	return nil
}

// abandonedUpload ends in the middle, by an error of its own.
func abandonedUpload(to target, _ int) error {
	body := io.MultiReader(bytes.NewReader(bytesOf(200_000)), failing{})
	_, said, err := to.do("PUT", "/digest", body, nil)
	if err == nil {
		return fmt.Errorf("answered %q", said)
	}
	return nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the source has failed") }
