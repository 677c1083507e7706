<?php
header('Content-Type: text/plain');
echo 'PHP ', PHP_VERSION, ' was asked for ', $_SERVER['REQUEST_URI'], "\n";
