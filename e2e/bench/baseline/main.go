// Command baseline runs what `make bench` compares the API with: the least that does a comparable job.
//
//	baseline gateway -listen HOST:PORT -redis redis://HOST:PORT -service http://HOST:PORT -keys KEY,... -per-minute N -header 'Name: value' ...
//	baseline record -listen HOST:PORT -database URL
package main

import (
	"fmt"
	"os"
)

func main() {
	commands := map[string]func(args []string) error{"gateway": serveGateway, "record": serveRecords}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: baseline gateway|record FLAGS")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "baseline:", err)
		os.Exit(1)
	}
}
