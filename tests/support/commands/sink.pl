#!/usr/bin/perl
# Each checkpoint of each subtask becomes one file, by one rename, under a name that is always the same. With the word
# "wrong" rows are appended, and a second file notes that: right around its calls, wrong between these two. With the word
# "hurried" it makes visible what is pending when it gets SIGTERM; with "calm" it just exits then. With "aging" it ends
# where a file is older than a day. With "skipping" it writes in place, and skips a file that has anything in it: wrong
# where one write is not enough. With "forcing" or "careless" files are forced to disk, and "careless" ignores an error.
use strict; use warnings; use JSON::PP; use MIME::Base64; use IO::Handle; $| = 1;
my ($folder, $subtask, $generation) = @ENV{qw(SINKPROOF_SCRATCH SINKPROOF_SUBTASK SINKPROOF_GENERATION)};
my ($wrong, $rows, %pending) = (($ARGV[0] // "") eq "wrong", "");

sub put { my ($how, $name, $text) = @_;
  open my $file, $how, "$folder/$name" or die "$name: $!"; print $file $text or die;
  force($file, $name); close $file or die "$name: $!"; }

sub force { my ($file, $name) = @_;
  return if ($ARGV[0] // "") !~ /forcing|careless/;
  ($file->flush and $file->sync) or $ARGV[0] eq "careless" or die "$name: $!"; }

sub publish { my ($owner, $id, $text) = @_;
  if ($wrong) {
    return if -e "$folder/done-$owner-$id";
    put(">>", "out-$owner", $text);
    put(">", "done-$owner-$id", "");
  } elsif (($ARGV[0] // "") eq "skipping") {
    return if -s "$folder/out-$owner-$id";
    put("+>>", "out-$owner-$id", $text);
  } else {
    my $temp = "temp-$subtask-$generation";
    put(">", $temp, $text);
    rename "$folder/$temp", "$folder/out-$owner-$id" or die "rename: $!";
  } }

my %asked = (calm => sub { exit }, hurried => sub { publish($subtask, $_, $pending{$_}) for sort keys %pending; exit });
$SIG{TERM} = $asked{$ARGV[0] // ""} // "DEFAULT";
while (my $line = <STDIN>) {
  my ($ask, $reply) = (decode_json($line), {ok => JSON::PP::true}); my ($call, $id) = @$ask{qw(call checkpoint_id)};
  if ($call eq "open") {
    if (($ARGV[0] // "") eq "aging") { -M $_ < 1 or die "$_ is too old" for glob("$folder/out-*"); }
    for my $old (@{$ask->{restored}}) { my $state = decode_json(decode_base64($old->{state}));
      publish($old->{subtask}, $_, $state->{$_}) for sort { $a <=> $b } keys %$state; } }
  elsif ($call eq "write") { $rows .= "[$_->{split}, $_->{offset}]\n" for @{$ask->{rows}}; }
  elsif ($call eq "snapshot") { $pending{$id} = $rows; $rows = ""; $reply->{state} = encode_base64(encode_json(\%pending), ""); }
  elsif ($call eq "notify_complete") {
    for (sort { $a <=> $b } grep { $_ <= $id } keys %pending) { publish($subtask, $_, $pending{$_}); delete $pending{$_}; } }
  print encode_json($reply), "\n"; }
