// Peers of the proxy in Go: clients and servers of HTTP/2 and gRPC as their libraries are. One program, so that one
// build is enough; the first argument says what it is this time.
package main

import (
	"fmt"
	"os"
)

func main() {
	parts := map[string]func([]string){
		"serve":       serve,
		"load":        load,
		"ask":         ask,
		"grpc-serve":  serveGRPC,
		"grpc-client": askGRPC,
	}
	if len(os.Args) > 1 && parts[os.Args[1]] != nil {
		parts[os.Args[1]](os.Args[2:])
		return
	}
	fmt.Fprintln(os.Stderr, "usage: peers serve|load|ask|grpc-serve|grpc-client …")
	os.Exit(2)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// failures are what went wrong, each with how often.
type failures map[string]int

// report prints what was done and ends the program, badly when anything went wrong.
func report(done int, failed failures) {
	count := 0
	for why, times := range failed {
		fmt.Printf("FAILED %d × %s\n", times, why)
		count += times
	}
	fmt.Printf("%d done, %d failed\n", done, count)
	if count > 0 {
		os.Exit(1)
	}
}
