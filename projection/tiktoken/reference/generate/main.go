// Command generate writes the vocabularies of package tiktoken, from the OpenAI
// files in github.com/pkoukk/tiktoken-go-loader, in the format described in
// packed.go:
//
//	go generate ./projection/tiktoken
package main

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"

	loader "github.com/pkoukk/tiktoken-go-loader"
)

func main() {
	for _, name := range []string{"cl100k_base", "o200k_base"} {
		if err := write(name); err != nil {
			fmt.Fprintf(os.Stderr, "generate %s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

func write(name string) error {
	ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe(name + ".tiktoken")
	if err != nil {
		return err
	}
	if err := check(ranks); err != nil {
		return err
	}
	data, err := pack(ranks)
	if err != nil {
		return err
	}
	return os.WriteFile(name+".bin", data, 0o644)
}

func pack(ranks map[string]int) ([]byte, error) {
	n := len(ranks)
	low, high := make([]byte, 0, 2*n), make([]byte, (n+3)/4)
	var forms, rest []byte
	size, last := 0, ""
	for i, token := range slices.Sorted(maps.Keys(ranks)) {
		common := 0
		for common < len(last) && common < len(token) && last[common] == token[common] {
			common++
		}
		own := len(token) - common
		if common < 16 && own < 16 {
			forms = append(forms, byte(common<<4|own))
		} else {
			forms, rest = append(forms, 0), append(rest, byte(common), byte(own))
		}
		rest = append(rest, token[common:]...)
		id := ranks[token]
		low = binary.LittleEndian.AppendUint16(low, uint16(id))
		high[i/4] |= byte(id>>16) << (i % 4 * 2)
		size, last = size+len(token), token
	}
	forms = append(forms, rest...)

	var out bytes.Buffer
	for _, number := range []int{n, size, len(forms)} {
		out.Write(binary.LittleEndian.AppendUint32(nil, uint32(number)))
	}
	out.Write(low)
	out.Write(high)
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(forms); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// check returns an error for a vocabulary that lacks what package tiktoken
// relies on: that ids are dense, that no token is longer than 128 bytes, and
// that the bytes of every token, merged by themselves, become that token by
// merges of ever higher rank.
func check(ranks map[string]int) error {
	for token, id := range ranks {
		switch {
		case id < 0 || id >= len(ranks) || id >= 1<<18:
			return fmt.Errorf("token %d of %d", id, len(ranks))
		case len(token) == 0 || len(token) > 128:
			return fmt.Errorf("token %d has %d bytes", id, len(token))
		case !rises(token, ranks):
			return fmt.Errorf("token %d is not merged in order", id)
		}
	}
	return nil
}

func rises(token string, ranks map[string]int) bool {
	parts := make([]string, len(token))
	for i := range len(token) {
		parts[i] = token[i : i+1]
	}
	for last := -1; len(parts) > 1; {
		low, at := len(ranks), 0
		for i := range len(parts) - 1 {
			if rank, ok := ranks[parts[i]+parts[i+1]]; ok && rank < low {
				low, at = rank, i
			}
		}
		if low == len(ranks) || low < last {
			return false
		}
		last = low
		parts[at] += parts[at+1]
		parts = slices.Delete(parts, at+1, at+2)
	}
	return true
}
