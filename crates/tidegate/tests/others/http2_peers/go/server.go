package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// cancelled counts requests whose context ended before they were answered.
var cancelled atomic.Int64

// serve answers HTTP/1.1 and h2c on one address or, with a certificate, HTTP/1.1 and HTTP/2 over TLS. A line `restart` on
// standard input puts a new server in the place of this one, which is shut down as Go does it: GOAWAY, and the streams
// there are finished. `cancelled` prints how many requests were given up.
func serve(arguments []string) {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	address := flags.String("address", "", "where to listen")
	certificate := flags.String("cert", "", "the chain, where it is TLS")
	key := flags.String("key", "", "its key")
	streams := flags.Int("streams", 250, "SETTINGS_MAX_CONCURRENT_STREAMS")
	must(flags.Parse(arguments))

	socket, err := net.Listen("tcp", *address)
	must(err)
	accepted := make(chan net.Conn)
	go func() {
		for {
			connection, err := socket.Accept()
			must(err)
			accepted <- connection
		}
	}()
	start := func() *http.Server {
		listener := &lent{Listener: socket, accepted: accepted, closed: make(chan struct{})}
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		protocols.SetHTTP2(true)
		protocols.SetUnencryptedHTTP2(true)
		server := &http.Server{
			Handler:   handler(),
			Protocols: protocols,
			HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: *streams},
			ErrorLog:  nil,
		}
		go func() {
			if *certificate == "" {
				_ = server.Serve(listener)
			} else {
				_ = server.ServeTLS(listener, *certificate, *key)
			}
		}()
		return server
	}
	server := start()
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		switch input.Text() {
		case "restart":
			old := server
			server = start()
			must(old.Shutdown(context.Background()))
			fmt.Println("restarted")
		case "cancelled":
			fmt.Println(cancelled.Load())
		}
	}
}

// lent is a listening socket that outlives the server that has it, as sockets of systemd's do: nobody is refused while
// one server follows another.
type lent struct {
	net.Listener
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (l *lent) Accept() (net.Conn, error) {
	select {
	case connection := <-l.accepted:
		return connection, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *lent) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/bytes/{count}", func(w http.ResponseWriter, r *http.Request) {
		count, _ := strconv.Atoi(r.PathValue("count"))
		body := bytesOf(count)
		w.Header().Set("X-Sha256", digest(body))
		if r.URL.Query().Has("length") || r.Method == http.MethodHead {
			w.Header().Set("Content-Length", strconv.Itoa(count))
		} else {
			w.Header().Set("Trailer", "X-Sha256-Trailer")
		}
		for from := 0; from < count; from += 1 << 15 {
			if _, err := w.Write(body[from:min(from+1<<15, count)]); err != nil {
				return
			}
		}
		w.Header().Set("X-Sha256-Trailer", digest(body))
	})
	mux.HandleFunc("/digest", func(w http.ResponseWriter, r *http.Request) {
		hash := sha256.New()
		count, err := io.Copy(hash, r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("X-Protocol", r.Proto)
		fmt.Fprintf(w, "%d %s %s", count, hex.EncodeToString(hash.Sum(nil)), r.Trailer.Get("X-Last"))
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		buffer := make([]byte, 1<<15)
		for {
			length, err := r.Body.Read(buffer)
			if length > 0 {
				_, _ = w.Write(buffer[:length])
				_ = http.NewResponseController(w).Flush()
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				panic(http.ErrAbortHandler)
			}
		}
	})
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.PathValue("code"))
		w.Header().Set("ETag", `"one"`)
		w.WriteHeader(code)
	})
	// An answer to a body that is not read.
	mux.HandleFunc("/early", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "no such upload")
	})
	mux.HandleFunc("/hints", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "hinted")
	})
	// Over HTTP/2, Go says GOAWAY behind such an answer.
	mux.HandleFunc("/goaway", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, "goodbye")
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
			cancelled.Add(1)
		case <-time.After(20 * time.Second):
			_, _ = io.WriteString(w, "slept")
		}
	})
	mux.HandleFunc("/broken", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(bytesOf(100_000))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	return mux
}

// bytesOf is a body whose every byte follows from its place, and that repeats only after 251 × 256.
func bytesOf(count int) []byte {
	body := make([]byte, count)
	for place := range body {
		body[place] = byte(place%251) ^ byte(place>>8)
	}
	return body
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
