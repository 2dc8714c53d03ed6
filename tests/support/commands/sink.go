package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
)

type Row struct{ Split, Offset int }
type Restored struct {
	Subtask int
	State   []byte
}
type Request struct {
	Call     string
	Subtask  int
	Id       int `json:"checkpoint_id"`
	Rows     []Row
	Restored []Restored
}

var folder, me, wrong = os.Getenv("SINKPROOF_SCRATCH"), 0, len(os.Args) > 1 && os.Args[1] == "wrong"

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func write(name string, flags int, rows []Row) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|flags, 0o666)
	must(err)
	text := ""
	for _, row := range rows {
		text += fmt.Sprintf("[%d, %d]\n", row.Split, row.Offset)
	}
	_, err = file.WriteString(text)
	must(err)
	must(file.Close())
}

func publish(subtask, id int, rows []Row) {
	if wrong {
		done := fmt.Sprintf("%s/done-%d-%d", folder, subtask, id)
		if _, err := os.Stat(done); err == nil {
			return
		}
		write(fmt.Sprintf("%s/out-%d", folder, subtask), os.O_APPEND, rows)
		write(done, 0, nil)
		return
	}
	temp := fmt.Sprintf("%s/temp-%d-%s", folder, me, os.Getenv("SINKPROOF_GENERATION"))
	write(temp, os.O_TRUNC, rows)
	must(os.Rename(temp, fmt.Sprintf("%s/out-%d-%d", folder, subtask, id)))
}

func publishAll(subtask, most int, pending map[int][]Row) {
	ids := []int{}
	for id := range pending {
		if id <= most {
			ids = append(ids, id)
		}
	}
	sort.Ints(ids)
	for _, id := range ids {
		publish(subtask, id, pending[id])
		delete(pending, id)
	}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	rows, pending := []Row{}, map[int][]Row{}
	for lines.Scan() {
		var ask Request
		must(json.Unmarshal(lines.Bytes(), &ask))
		reply := map[string]any{"ok": true}
		switch ask.Call {
		case "open":
			me = ask.Subtask
			for _, old := range ask.Restored {
				restored := map[int][]Row{}
				must(json.Unmarshal(old.State, &restored))
				publishAll(old.Subtask, 1<<30, restored)
			}
		case "write":
			rows = append(rows, ask.Rows...)
		case "snapshot":
			pending[ask.Id], rows = rows, []Row{}
			state, err := json.Marshal(pending)
			must(err)
			reply["state"] = state
		case "notify_complete":
			publishAll(me, ask.Id, pending)
		}
		line, err := json.Marshal(reply)
		must(err)
		fmt.Println(string(line))
	}
}
