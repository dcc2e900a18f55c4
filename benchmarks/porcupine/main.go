// Checks one history with Porcupine and prints what it found as a line of JSON: {"result": "Ok", "check_s": 1.5, "peak_mib": 90}.
//
//	porcupine_beside register|log FILE SECONDS
//
// FILE has eight little-endian 64-bit integers an operation: object, process, f, a, b, offset, begin, end, as the columns of a
// history; f is 1 read, 2 write, 3 compare-and-set that swapped, 4 append. The time limit is for the check alone.
package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const fields = 8

type request struct{ object, f, a, b, offset int64 }

func byObject(history []porcupine.Operation) [][]porcupine.Operation {
	position := map[int64]int{}
	var parts [][]porcupine.Operation
	for _, operation := range history {
		object := operation.Input.(request).object
		at, known := position[object]
		if !known {
			at = len(parts)
			position[object] = at
			parts = append(parts, nil)
		}
		parts[at] = append(parts[at], operation)
	}
	return parts
}

// A register: the state is its value, -1 at first.
var register = porcupine.Model{
	Partition: byObject,
	Init:      func() interface{} { return int64(-1) },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		asked := input.(request)
		switch asked.f {
		case 1:
			return state.(int64) == asked.a, state
		case 2:
			return true, asked.a
		default:
			return state.(int64) == asked.a, asked.b
		}
	},
}

// A log to which the offset of an append was told: the state is its length. That reads see what was appended at their offset
// holds before the search begins, because each value is appended once.
var appendLog = porcupine.Model{
	Partition: byObject,
	Init:      func() interface{} { return int64(0) },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		asked, length := input.(request), state.(int64)
		if asked.f == 4 {
			return asked.offset == length, length + 1
		}
		return asked.offset < length, length
	},
}

// The greatest resident memory of this process so far.
func peakMiB() int {
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, _ := strconv.Atoi(strings.Fields(rest + " 0")[0])
	return kib >> 10
}

func main() {
	models := map[string]porcupine.Model{"register": register, "log": appendLog}
	raw, err := os.ReadFile(os.Args[2])
	seconds, notANumber := strconv.Atoi(os.Args[3])
	if err != nil || notANumber != nil {
		fmt.Fprintln(os.Stderr, err, notANumber)
		os.Exit(2)
	}
	count := len(raw) / 8 / fields
	history := make([]porcupine.Operation, count)
	for i := range history {
		var row [fields]int64
		for j := range row {
			row[j] = int64(binary.LittleEndian.Uint64(raw[(i*fields+j)*8:]))
		}
		history[i] = porcupine.Operation{
			ClientId: int(row[1]), Input: request{row[0], row[2], row[3], row[4], row[5]}, Call: row[6], Return: row[7],
		}
	}
	raw = nil
	began := time.Now()
	result := porcupine.CheckOperationsTimeout(models[os.Args[1]], history, time.Duration(seconds)*time.Second)
	found := map[string]interface{}{
		"result": string(result), "check_s": time.Since(began).Seconds(), "peak_mib": peakMiB(),
	}
	line, _ := json.Marshal(found)
	fmt.Println(string(line))
}
