import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.regex.*;

public class Sink {
    static final String FOLDER = System.getenv("SINKPROOF_SCRATCH"), GENERATION = System.getenv("SINKPROOF_GENERATION");
    static final String ME = System.getenv("SINKPROOF_SUBTASK");
    static boolean wrong;

    static void write(String name, String rows, OpenOption... how) throws IOException {
        Files.write(Path.of(FOLDER, name), rows.getBytes(StandardCharsets.UTF_8), how);
    }

    static void publish(String subtask, int id, String rows) throws IOException {
        if (wrong) {
            if (Files.exists(Path.of(FOLDER, "done-" + subtask + "-" + id))) return;
            write("out-" + subtask, rows, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            write("done-" + subtask + "-" + id, "", StandardOpenOption.CREATE);
        } else {
            String temp = "temp-" + ME + "-" + GENERATION;
            write(temp, rows);
            Files.move(Path.of(FOLDER, temp), Path.of(FOLDER, "out-" + subtask + "-" + id), StandardCopyOption.ATOMIC_MOVE);
        }
    }

    static String found(String pattern, String line) {
        Matcher matcher = Pattern.compile(pattern).matcher(line);
        return matcher.find() ? matcher.group(1) : "";
    }

    public static void main(String[] words) throws IOException {
        wrong = words.length > 0 && words[0].equals("wrong");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder rows = new StringBuilder();
        TreeMap<Integer, String> pending = new TreeMap<>();
        for (String line; (line = lines.readLine()) != null; ) {
            String id = found("\"checkpoint_id\": (\\d+)", line), state = "";
            switch (found("\"call\": \"(\\w+)\"", line)) {
                case "open" -> {
                    Matcher restored = Pattern.compile("\"subtask\": (\\d+), \"state\": \"([^\"]*)\"").matcher(line);
                    while (restored.find()) {
                        String text = new String(Base64.getDecoder().decode(restored.group(2)), StandardCharsets.UTF_8);
                        for (String part : text.split(";")) {
                            if (part.isEmpty()) continue;
                            publish(restored.group(1), Integer.parseInt(part.split(":")[0]), part.substring(part.indexOf(':') + 1));
                        }
                    }
                }
                case "write" -> {
                    Matcher row = Pattern.compile("\"split\": (\\d+), \"offset\": (\\d+)").matcher(line);
                    while (row.find()) rows.append("[" + row.group(1) + ", " + row.group(2) + "]\n");
                }
                case "snapshot" -> {
                    pending.put(Integer.parseInt(id), rows.toString());
                    rows.setLength(0);
                    StringBuilder text = new StringBuilder();
                    pending.forEach((key, value) -> text.append(key + ":" + value + ";"));
                    byte[] bytes = text.toString().getBytes(StandardCharsets.UTF_8);
                    state = ", \"state\": \"" + Base64.getEncoder().encodeToString(bytes) + "\"";
                }
                case "notify_complete" -> {
                    while (!pending.isEmpty() && pending.firstKey() <= Integer.parseInt(id)) {
                        publish(ME, pending.firstKey(), pending.get(pending.firstKey()));
                        pending.pollFirstEntry();
                    }
                }
            }
            System.out.println("{\"ok\": true" + state + "}");
        }
    }
}
